"""Policy expressions: the valid expressions of each policy type. Pure."""

from tracelake.control.promotion.gate import NO_BREAKING_CHANGE
from tracelake_sdk.errors import PolicyInvalid
from tracelake_sdk.rules.promotions import PolicyType

_SAYS: dict[PolicyType, str] = {PolicyType.SCHEMA: NO_BREAKING_CHANGE}


def parse_policy(policy_type: str, expression: str) -> tuple[PolicyType, str]:
    """The policy in canonical form; raises PolicyInvalid with the valid choices."""
    try:
        type = PolicyType(policy_type)
    except ValueError:
        raise PolicyInvalid(f"{policy_type[:80]!r} is not a valid policy type; choose one of {', '.join(PolicyType)}.") from None
    if " ".join(expression.lower().split()) != _SAYS[type]:
        raise PolicyInvalid(f"The expression of a {type.value} policy is `{_SAYS[type]}`; {expression[:80]!r} is not valid.")
    return type, _SAYS[type]

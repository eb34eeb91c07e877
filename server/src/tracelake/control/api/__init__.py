"""The HTTP surface: app assembly, authentication, and errors as problem+json."""

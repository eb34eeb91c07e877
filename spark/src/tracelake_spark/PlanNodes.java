import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedFunction;
import org.apache.spark.sql.catalyst.analysis.UnresolvedGenerator;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Range;
import org.apache.spark.sql.catalyst.plans.logical.RebalancePartitions;
import org.apache.spark.sql.catalyst.plans.logical.Repartition;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.catalyst.plans.logical.UnionLoop;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.UserDefinedType;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Every node of a plan as JSON: [class, whether it is a plan, line, column from 1, name parts, requested number]. User-defined types and fields with metadata are included.
 *
 * It follows all constructor arguments of a node, and so finds plans in subqueries, in CTEs and in places that Spark's own tree walks skip. Views are listed
 * and not entered. Compiled by Janino, which Spark uses for generated code: it has no generics and no lambdas. One call instead of ten for each node.
 */
public final class PlanNodes implements java.util.function.Function {
    private static final List PLAIN = java.util.Arrays.asList(new String[] {"comment", "__CHAR_VARCHAR_TYPE_STRING"});

    public Object apply(Object plan) {
        List found = new ArrayList();
        Set seen = Collections.newSetFromMap(new IdentityHashMap());
        ArrayDeque open = new ArrayDeque(); // not recursion: expressions may be deeper than the stack
        open.push(plan);
        while (!open.isEmpty()) {
            Object value = open.pop();
            boolean isNode = value instanceof TreeNode;
            boolean isMadeOfParts = value instanceof scala.Product || value instanceof scala.collection.Iterable;
            if (!(isNode || isMadeOfParts || value instanceof UserDefinedType) || !seen.add(value)) {
                continue;
            }
            if (isNode) {
                found.add(described((TreeNode) value));
            } else if (value instanceof UserDefinedType || value instanceof StructField && !isPlain((StructField) value)) {
                found.add(new Object[] {value.getClass().getName(), Boolean.FALSE, null, null, null, null});
            }
            if (value instanceof View) {
                continue;
            }
            if (isNode) {
                pushAll(open, ((TreeNode) value).children().iterator());
                pushAll(open, ((TreeNode) value).innerChildren().iterator());
            }
            if (value instanceof scala.Product) {
                pushAll(open, ((scala.Product) value).productIterator());
            }
            if (value instanceof scala.collection.Iterable) { // a schema is both, and keeps its fields in an array
                pushAll(open, ((scala.collection.Iterable) value).iterator());
            }
        }
        try {
            return new ObjectMapper().writeValueAsString(found);
        } catch (JsonProcessingException error) {
            throw new RuntimeException(error);
        }
    }

    private static void pushAll(ArrayDeque open, scala.collection.Iterator parts) {
        while (parts.hasNext()) {
            Object part = parts.next();
            if (part != null) {
                open.push(part);
            }
        }
    }

    private static Object[] described(TreeNode node) {
        scala.Option line = node.origin().line();
        scala.Option start = node.origin().startPosition();
        Object column = start.isDefined() ? Integer.valueOf(((Integer) start.get()).intValue() + 1) : null;
        return new Object[] {node.getClass().getName(), Boolean.valueOf(node instanceof LogicalPlan), line.isDefined() ? line.get() : null, column, names(node), requested(node)};
    }

    /** Metadata of a field may contain SQL that Spark evaluates as its default value, outside of the plan. */
    private static boolean isPlain(StructField field) {
        try {
            java.util.Iterator keys = new ObjectMapper().readTree(field.metadata().json()).fieldNames();
            while (keys.hasNext()) {
                if (!PLAIN.contains(keys.next())) {
                    return false;
                }
            }
            return true;
        } catch (JsonProcessingException error) {
            return false;
        }
    }

    /** The number of partitions, or levels of recursion, in the statement. */
    private static Object requested(TreeNode node) {
        scala.Option number = scala.Option.empty();
        if (node instanceof Repartition) {
            return Integer.valueOf(((Repartition) node).numPartitions());
        } else if (node instanceof RepartitionByExpression) {
            number = ((RepartitionByExpression) node).optNumPartitions();
        } else if (node instanceof RebalancePartitions) {
            number = ((RebalancePartitions) node).optNumPartitions();
        } else if (node instanceof Range) {
            number = ((Range) node).numSlices();
        } else if (node instanceof UnionLoop) {
            number = ((UnionLoop) node).maxDepth();
        } else if (node instanceof CTERelationDef) {
            number = ((CTERelationDef) node).maxDepth();
        }
        return number.isDefined() ? number.get() : null;
    }

    private static List names(TreeNode node) {
        scala.collection.Seq parts = null;
        if (node instanceof UnresolvedFunction) {
            parts = ((UnresolvedFunction) node).nameParts();
        } else if (node instanceof UnresolvedTableValuedFunction) {
            parts = ((UnresolvedTableValuedFunction) node).name();
        } else if (node instanceof UnresolvedRelation) {
            parts = ((UnresolvedRelation) node).multipartIdentifier();
        } else if (node instanceof UnresolvedGenerator) {
            parts = ((UnresolvedGenerator) node).name().nameParts();
        } else if (node instanceof View) {
            parts = ((View) node).desc().identifier().nameParts();
        }
        return parts == null ? null : new ArrayList(CollectionConverters.asJava(parts));
    }
}

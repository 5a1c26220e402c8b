"""Adapting field sets to a schema that has changed since they were written."""

from kilonova.local.apiserver.field_manager.field_sets import LEAF, FieldSet
from kilonova.local.apiserver.field_manager.merge_schema import MergeSchema


def reconcile_with_schema(schema: MergeSchema, fields: FieldSet) -> FieldSet:
    """The set, with fields that are atomic now owned as a whole.

    The opposite change, from atomic to granular, needs nothing: the owner keeps its fields.
    """
    return _reconcile_map(schema, fields)


def _reconcile_branch(schema: MergeSchema, branch: FieldSet) -> FieldSet:
    if not branch:
        return branch
    if schema.is_map:
        if not schema.granular:
            return LEAF
        return _reconcile_map(schema, branch)
    if schema.is_list:
        if not schema.associative:
            return LEAF
        return _reconcile_children(
            branch, {element: schema.item_schema for element in branch if element != "."}
        )
    return branch


def _reconcile_map(schema: MergeSchema, branch: FieldSet) -> FieldSet:
    known = {
        element: schema.field_schema(element[2:])
        for element in branch
        if element[0] == "f" and (schema.declares_field(element[2:]) or schema.allows_undeclared)
    }
    return _reconcile_children(branch, known)


def _reconcile_children(branch: FieldSet, schemas: dict[str, MergeSchema]) -> FieldSet:
    result: FieldSet | None = None
    for element, schema in schemas.items():
        child = branch[element]
        reconciled = _reconcile_branch(schema, child)
        if reconciled is not child:
            if result is None:
                result = dict(branch)
            result[element] = reconciled
    return branch if result is None else result

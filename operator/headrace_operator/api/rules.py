"""One rule, checked twice: by the API server as CEL at apply, by `parse` for objects that predate the rule.

A `Rule` stands in `Annotated[...]` of a field, or in `RULES` of a `Part` where it joins several fields.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema


@dataclass(frozen=True, slots=True)
class Rule:
    """`cel` for the API server, `holds` for us; `message` is what either says when it does not hold."""

    cel: str
    message: str
    holds: Callable[[Any], bool]
    field_path: str | None = None
    """Of the field to blame, from where the rule stands, such as `.maxReplicas`."""

    def check(self, value: Any) -> None:
        if not self.holds(value):
            raise PydanticCustomError("rule", "{message}", {"message": self.message, "path": self.field_path})

    def as_validation(self) -> dict[str, str]:
        validation = {"rule": self.cel, "message": self.message}
        return validation if self.field_path is None else {**validation, "fieldPath": self.field_path}

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        def validate(value: Any) -> Any:
            self.check(value)
            return value

        return core_schema.no_info_after_validator_function(validate, handler(source))

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler(core)
        schema["x-kubernetes-validations"] = [
            *schema.get("x-kubernetes-validations", []),
            self.as_validation(),
        ]
        return schema


class Part(BaseModel):
    """One object of the resource. Camel case outside; unknown fields are the API server's to refuse."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)
    RULES: ClassVar[tuple[Rule, ...]] = ()

    @model_validator(mode="after")
    def _keeps_its_rules(self) -> Self:
        for rule in self.RULES:
            rule.check(self)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core))
        if cls.RULES:
            schema["x-kubernetes-validations"] = [rule.as_validation() for rule in cls.RULES]
        return schema


def of_defaults(part: type[Part], description: str) -> Any:
    """An object that the API server fills in where it is absent. Its default is spelled out, because the API
    server checks the rules against it as it stands, before the defaults of its fields are filled in.
    """
    default = part().model_dump(by_alias=True, exclude_none=True, mode="json")
    return Field(default_factory=part, description=description, json_schema_extra={"default": default})

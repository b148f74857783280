"""Finds the application that `fieldfare run module:app` names; says plainly what is wrong where there is none."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from fieldfare.errors import AppImportError, FieldfareError
from fieldfare.handlers.app import App


def load_app(path: str, folder: Path | None = None) -> App:
    """The application at an import path, `module:name`; modules are also looked for in the folder."""
    module_name, colon, name = path.partition(":")
    if not colon or not module_name or not name:
        raise AppImportError(path, "say where the application is, as module:name, such as `main:app`")
    if module_name.endswith(".py") or "/" in module_name:
        plain = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise AppImportError(path, f"this is a file, not a module: say `{plain}:{name}`")
    sys.path.insert(0, str(folder or Path.cwd()))
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name == missing or module_name.startswith(f"{missing}."):
            raise AppImportError(path, f"there is no module {missing!r} in {sys.path[0]}") from error
        raise AppImportError(path, f"module {module_name!r} needs {missing!r}, which is not installed") from error
    except FieldfareError:
        raise
    except Exception as error:
        raise AppImportError(path, f"module {module_name!r} fails: {type(error).__name__}: {error}") from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise AppImportError(path, f"module {module_name!r} has no {name!r}")
        found = getattr(found, part)
    if not isinstance(found, App):
        raise AppImportError(path, f"{name!r} is a {type(found).__name__}, not a fieldfare.App")
    if not found.handlers:
        raise AppImportError(path, f"{name!r} has no handlers: decorate a function with @{name}.on(...)")
    return found

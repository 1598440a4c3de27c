"""From `MODULE:APP` to the app, with words for everything that can be wrong with it."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.app.app import App
from penstock.app.places import raised_at
from penstock.errors import InvalidInput


def load_app(place: str) -> App:
    """The app; the name may be left out where a module has only one."""
    module_name, _, name = place.partition(":")
    module = _module(module_name, place)
    if not name:
        return _only_app(module)
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise InvalidInput(f"module {module_name!r} has no {name!r}; {_candidates(module)}")
        found = getattr(found, part)
    if not isinstance(found, App):
        kind = type(found).__name__
        raise InvalidInput(f"{place} is no penstock.App but a {kind}; {_candidates(module)}")
    return found


def _module(name: str, place: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    if name.endswith(".py") or "/" in name:
        dotted = name.removesuffix(".py").strip("./").replace("/", ".")
        raise InvalidInput(f"{place!r} names a file; name the module: {dotted}:app")
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise InvalidInput(
                f"there is no module {name!r}; looked in the current folder ({here}), which is "
                "on the path, and in what is installed"
            ) from None
        raise InvalidInput(
            f"module {name!r} can't be imported: it needs {error.name!r}, which is not there"
        ) from None
    except SystemExit as error:
        how = f"sys.exit({'' if error.code is None else repr(error.code)})"
        raise InvalidInput(
            f"module {name!r} can't be imported: it ends the program by {how} "
            f'({raised_at(error)}); keep that behind `if __name__ == "__main__":`'
        ) from error
    except Exception as error:
        words = f"{type(error).__name__}: {error} ({raised_at(error)})"
        raise InvalidInput(f"module {name!r} can't be imported: {words}") from error


def _only_app(module: ModuleType) -> App:
    apps = _apps(module)
    if len(apps) == 1:
        return next(iter(apps.values()))
    raise InvalidInput(f"which app of module {module.__name__!r}? {_candidates(module)}")


def _apps(module: ModuleType) -> dict[str, App]:
    return {name: value for name, value in vars(module).items() if isinstance(value, App)}


def _candidates(module: ModuleType) -> str:
    apps = _apps(module)
    if not apps:
        return "there is no penstock.App in it"
    return "it has " + ", ".join(f"{module.__name__}:{name}" for name in sorted(apps))

"""One step of the build that pyproject.toml cannot say: `assets/` goes into the package. All else stands there."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class WithAssets(build_py):
    """The package, and in it the data files that lie beside it in the repository."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "specdecode" / "assets"
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree("assets", target)


setup(cmdclass={"build_py": WithAssets})

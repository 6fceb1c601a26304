"""The packages of the distribution: the repository's root is ``capbench``, and its folders are found."""

from setuptools import find_packages, setup

FOLDERS = ("adapters", "benchmarks", "cli", "metrics", "recipes", "tasks")
NOT_SHIPPED = ("recipes.shapes.world",)  # trains the models that ship

setup(
    packages=[
        "capbench",
        *(
            f"capbench.{package}"
            for package in find_packages(
                include=[pattern for name in FOLDERS for pattern in (name, f"{name}.*")], exclude=NOT_SHIPPED
            )
        ),
    ]
)

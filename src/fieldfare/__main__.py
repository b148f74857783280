"""`python -m fieldfare`; and the file to give to spark-submit."""

from fieldfare.cli import app

if __name__ == "__main__":
    app()

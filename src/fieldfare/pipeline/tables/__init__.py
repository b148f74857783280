"""Outputs that other tools read as tables.

address      which table: `delta:FOLDER`, `iceberg:FOLDER/namespace.table`, `postgresql://host/database?table=name`
gathering    batches gather in a folder for half a minute and go into a lake table in one commit, once
delta        Delta tables, by the Rust library
iceberg      Iceberg tables, by pyiceberg; without a catalog of the user's, one in SQLite
postgres     a table in PostgreSQL, with a row for each pair
postgres_rows  its columns, and rows as COPY reads them
"""

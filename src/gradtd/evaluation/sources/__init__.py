"""Where steps come from: chunks of whole episodes of a folder of Parquet files."""

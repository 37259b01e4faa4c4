//! What the fuzz targets run, and the replay of their corpora

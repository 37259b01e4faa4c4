//! TPC-H rows, queries and workers that run over flows

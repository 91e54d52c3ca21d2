//! YCSB workloads: key choice, operation mix, values that prove themselves.

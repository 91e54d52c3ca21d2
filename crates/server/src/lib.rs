//! Sockets, threads and clocks around a node.

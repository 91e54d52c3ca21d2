//! Redis protocol (RESP2 and RESP3) codecs.

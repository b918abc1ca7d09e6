// SPDX-License-Identifier: Apache-2.0
// Linked into every test under the thread sanitizer. Debian's RocksDB is not instrumented: the
// sanitizer sees the memory it touches, through memcpy and malloc, but not the atomics that order
// it, and takes its memtable for a race.

extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "race:librocksdb.so\n"; }

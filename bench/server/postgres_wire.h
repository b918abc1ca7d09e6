// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The little of PostgreSQL's protocol, version 3, that the load needs. libpq would allocate for
/// every row and so measure itself; this writes into one string and cuts from one buffer.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

namespace carillon::bench {

/// Object ids of types, from pg_type.
inline constexpr std::uint32_t kByteaType = 17;
inline constexpr std::uint32_t kInt8Type = 20;
inline constexpr std::uint32_t kByteaArrayType = 1001;
inline constexpr std::uint32_t kInt8ArrayType = 1016;

/// The database's superuser, as whom all connections are made.
inline constexpr std::string_view kPostgresUser = "bench";

void append_startup(std::string& out);
void append_query(std::string& out, std::string_view sql);
void append_parse(std::string& out, std::string_view name, std::string_view sql,
                  std::initializer_list<std::uint32_t> types);
void append_sync(std::string& out);

/// One execution of a prepared statement with binary arguments and results, as it is written; ends,
/// with a Sync, when this object goes.
class BoundStatement {
 public:
  BoundStatement(std::string& out, std::string_view name, std::uint16_t arguments);
  ~BoundStatement();
  BoundStatement(const BoundStatement&) = delete;
  BoundStatement& operator=(const BoundStatement&) = delete;

  /// An argument, or an element between begin_array() and end_array().
  void add_int8(std::int64_t value);
  void add_bytes(std::string_view bytes);
  void begin_array(std::uint32_t element_type, std::size_t size);
  void end_array();

 private:
  std::string& out_;
  std::size_t begins_at_;
  std::size_t array_at_ = 0;
};

/// Walks over whole messages.
class MessageReader {
 public:
  explicit MessageReader(std::string_view in) : in_(in) {}

  /// Whether there is one more; it is the present one then. Throws BenchError at an error message.
  bool next();
  [[nodiscard]] char type() const { return type_; }
  [[nodiscard]] std::string_view payload() const { return payload_; }
  /// How far the messages walked over reach.
  [[nodiscard]] std::size_t taken() const { return at_; }
  /// Of a row, type 'D'. Empty for NULL.
  [[nodiscard]] std::string_view column(std::size_t index) const;

 private:
  std::string_view in_;
  std::size_t at_ = 0;
  char type_ = 0;
  std::string_view payload_;
};

/// The bytes up to and with the first "ready for query", 0 if that has not come.
[[nodiscard]] std::size_t cut_until_ready(std::string_view in);

/// Sends `out` and reads, blocking, until the server was ready so many times. Returns what came.
std::string await_ready(int fd, std::string_view out, int times);

}  // namespace carillon::bench

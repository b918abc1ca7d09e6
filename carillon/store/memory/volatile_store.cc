// SPDX-License-Identifier: Apache-2.0
#include "carillon/store/memory/volatile_store.h"

#include <utility>

namespace carillon::store {

Result<void> VolatileStore::recover(broker::RecoverySink& /*sink*/) { return {}; }

void VolatileStore::commit(std::unique_ptr<broker::Batch> batch, Committed done) {
  const broker::CommitSeq seq = batch->seq;
  batch.reset();
  done(seq, {});
}

void VolatileStore::fetch(std::vector<broker::WantedJob> wanted, Fetched done) {
  std::vector<Result<std::optional<broker::StoredJob>>> answers;
  for (std::size_t i = 0; i < wanted.size(); ++i) answers.emplace_back(std::nullopt);
  done(std::move(answers));
}

void VolatileStore::scan_far(broker::TubeNumber /*tube*/, broker::FarCursor /*from*/,
                             std::int64_t /*until_ms*/, std::size_t /*limit*/, Scanned done) {
  done(broker::FarChunk());
}

void VolatileStore::find_key(broker::TubeNumber /*tube*/, std::string /*key*/, KeyFound done) {
  done(std::optional<broker::FarPlace>());
}

}  // namespace carillon::store

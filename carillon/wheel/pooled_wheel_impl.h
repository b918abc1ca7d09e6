// SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The out-of-line half of pooled_wheel.h, for those who instantiate it with a shape of their own;
/// wheels of PooledShape, whatever the payload, need only that header.
///
/// Example:
///     struct SmallChunks : carillon::PooledShape { static constexpr int kChunkBits = 3; };
///     carillon::BasicPooledWheel<int, SmallChunks> wheel;

#include "carillon/wheel/internal/pool_core_impl.h"
#include "carillon/wheel/pooled_wheel.h"

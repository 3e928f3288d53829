#pragma once
#include <protobuf-c/protobuf-c.h>
#pragma clang attribute push(__attribute__((swift_attr("@safe"))), apply_to = any(record, field, function))
#include "callmesh/v1/cluster.pb-c.h"
#include "callmesh/v1/device.pb-c.h"
#include "callmesh/v1/events.pb-c.h"
#include "callmesh/v1/journal.pb-c.h"
#include "callmesh/v1/records.pb-c.h"
#pragma clang attribute pop

#pragma once
#include "callmesh/v1/cluster.pb-c.h"
#include "callmesh/v1/device.pb-c.h"
#include "callmesh/v1/journal.pb-c.h"

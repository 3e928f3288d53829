#pragma once
#include <nats/nats.h>
// Glibc's module for Swift lacks these two headers.
#include <sys/epoll.h>
#include <sys/eventfd.h>

internal import CallCore
internal import FoundationEssentials

/// The wall clock's time.
func wallClock() -> Timestamp {
  Timestamp(microseconds: Int64(Date().timeIntervalSince1970 * 1_000_000))
}

/// A random UUID (version 4), in lower case.
func mintUUID() -> String {
  let (high, low) = (UInt64.random(in: 0 ... .max), UInt64.random(in: 0 ... .max))
  return CallID(high: high & ~0xF000 | 0x4000, low: low & ~(0xC000 << 48) | 0x8000 << 48)
    .description
}

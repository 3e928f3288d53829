internal import CallCore
internal import FoundationEssentials

/// The wall clock.
func wallClock() -> Timestamp {
  Timestamp(microseconds: Int64(Date().timeIntervalSince1970 * 1_000_000))
}

/// A random UUID (version 4), in lower case.
func mintUUID() -> String {
  var high = UInt64.random(in: .min ... .max)
  var low = UInt64.random(in: .min ... .max)
  high = high & ~0xF000 | 0x4000
  low = low & ~(0xC000 << 48) | 0x8000 << 48
  let digits = Array("0123456789abcdef".utf8)
  return String(unsafeUninitializedCapacity: 36) { bytes in
    var place = 0
    for digit in 0..<32 {
      if digit == 8 || digit == 12 || digit == 16 || digit == 20 {
        bytes[place] = UInt8(ascii: "-")
        place += 1
      }
      let word = digit < 16 ? high : low
      bytes[place] = digits[Int(word >> (60 - 4 * UInt64(digit % 16)) & 15)]
      place += 1
    }
    return 36
  }
}

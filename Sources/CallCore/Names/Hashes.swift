/// FNV-1a, 64 bit.
struct FNV1a {
  private(set) var value: UInt64 = 0xcbf2_9ce4_8422_2325

  /// - Parameter seed: sets apart what the text means.
  init(seed: UInt8 = 0) { value ^= UInt64(seed) }

  @inline(__always)
  mutating func add(_ byte: UInt8) { value = (value ^ UInt64(byte)) &* 0x100_0000_01b3 }

  /// - Parameter end: follows the text, so that no other division into texts gives the same bytes.
  mutating func add(_ text: String, end: UInt8? = nil) {
    // The bytes at once: one after the other they cost six times as much.
    let added: Void? = text.utf8.withContiguousStorageIfAvailable { for byte in $0 { add(byte) } }
    if added == nil { for byte in text.utf8 { add(byte) } }
    if let end { add(end) }
  }
}

/// A small seeded generator: the same seed gives the same run. Not for secrets.
public struct SplitMix64: RandomNumberGenerator, Sendable {
  private var state: UInt64

  public init(seed: UInt64) { state = seed }

  public mutating func next() -> UInt64 {
    state &+= 0x9E37_79B9_7F4A_7C15
    return ShardHash.mix(state)
  }
}

/// The function from a user to its shard. It never changes.
///
/// FNV-1a, 64 bit, over the UTF-8 bytes of the app, one zero byte, and the user; the result is mixed
/// by one round of the SplitMix64 finaliser, since the low bits of FNV alone are uneven for short
/// keys; then taken modulo the shard count. docs/architecture.md has test vectors.
public enum ShardHash {
  public static func hash(_ key: UserKey) -> UInt64 {
    var hash = FNV1a()
    hash.add(key.app, end: 0)
    hash.add(key.user)
    return mix(hash.value)
  }

  public static func shard(of key: UserKey, count: Int) -> Int {
    Int(hash(key) % UInt64(count))
  }

  /// The rendezvous weight of a node for a shard; the living node with the greatest weight owns it.
  public static func weight(node: String, shard: Int) -> UInt64 {
    var hash = FNV1a()
    hash.add(node)
    return mix(hash.value ^ mix(UInt64(shard) &+ 0x9e37_79b9_7f4a_7c15))
  }

  /// The number under which part `index` of a coordinator takes replies. Not 0.
  public static func peer(of incarnation: UInt64, _ index: Int) -> UInt64 {
    PeerKind.coordinator.number(mix(incarnation &+ UInt64(index + 1) &* 0x9e37_79b9_7f4a_7c15))
  }

  /// The SplitMix64 finaliser.
  static func mix(_ value: UInt64) -> UInt64 {
    var z = value
    z = (z ^ (z >> 30)) &* 0xbf58_476d_1ce4_e5b9
    z = (z ^ (z >> 27)) &* 0x94d0_49bb_1331_11eb
    return z ^ (z >> 31)
  }
}

/// Nodes other than edges that take replies. The number of such a node shows its kind, and replies to it go to
/// subjects that edges may not subscribe to.
public enum PeerKind: UInt64, Sendable, CaseIterable {
  // The high halves of numbers. By chance one edge in two billion has one of them.
  case coordinator = 0x636f_6f72
  case gateway = 0x7075_7368

  /// - Parameter number: of an edge or of another node; nil for an edge's.
  public init?(of number: UInt64) { self.init(rawValue: number >> 32) }

  /// - Parameter random: of which the low half counts.
  public func number(_ random: UInt64) -> UInt64 { rawValue << 32 | random & 0xffff_ffff | 1 }
}

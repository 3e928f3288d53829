/// Ids of apps, users and devices are equal if their bytes are.
///
/// Swift's own `==` takes two texts for one where Unicode calls them canonically equivalent: "K" and the
/// Kelvin sign U+212A, or "é" written as one scalar and as two. Shards, keys of the store and tokens go
/// by bytes; so whatever compares ids, or keeps them in a table, goes by these.
extension String {
  /// Whether both are the same, byte for byte.
  public func hasBytes(of other: String) -> Bool {
    // Texts that are short enough to need no storage, or that share one, are the same word for word.
    if unsafeBitCast(self, to: Words.self) == unsafeBitCast(other, to: Words.self) { return true }
    let (mine, theirs) = (utf8, other.utf8)
    guard mine.count == theirs.count else { return false }
    let fast = mine.withContiguousStorageIfAvailable { mine in
      theirs.withContiguousStorageIfAvailable {
        Self.areEqual(UnsafeRawBufferPointer(mine), UnsafeRawBufferPointer($0))
      }
    }
    return fast.flatMap(\.self) ?? mine.elementsEqual(theirs)
  }

  /// A String as it is in memory.
  private typealias Words = SIMD2<UInt64>

  /// Eight bytes at a time. Both have the same length.
  private static func areEqual(_ one: UnsafeRawBufferPointer, _ other: UnsafeRawBufferPointer)
    -> Bool
  {
    var position = 0
    while position + 8 <= one.count {
      let mine = one.loadUnaligned(fromByteOffset: position, as: UInt64.self)
      guard mine == other.loadUnaligned(fromByteOffset: position, as: UInt64.self) else {
        return false
      }
      position += 8
    }
    while position < one.count {
      guard one[position] == other[position] else { return false }
      position += 1
    }
    return true
  }

  /// Feeds the bytes and a terminator that no text contains, so that no other pair of texts gives the same bytes.
  public func hashBytes(into hasher: inout Hasher) {
    let fast: Void? = utf8.withContiguousStorageIfAvailable {
      hasher.combine(bytes: UnsafeRawBufferPointer($0))
    }
    if fast == nil { Array(utf8).withUnsafeBytes { hasher.combine(bytes: $0) } }
    hasher.combine(0xff as UInt8)
  }
}

extension UserKey {
  public static func == (one: UserKey, other: UserKey) -> Bool {
    one.user.hasBytes(of: other.user) && one.app.hasBytes(of: other.app)
  }

  public func hash(into hasher: inout Hasher) {
    app.hashBytes(into: &hasher)
    user.hashBytes(into: &hasher)
  }
}

extension DeviceID {
  public static func == (one: DeviceID, other: DeviceID) -> Bool {
    one.text.hasBytes(of: other.text)
  }

  public func hash(into hasher: inout Hasher) { text.hashBytes(into: &hasher) }
}

extension Party {
  public static func == (one: Party, other: Party) -> Bool {
    one.device == other.device && one.user.hasBytes(of: other.user)
      && one.deviceName == other.deviceName && one.name == other.name
  }

  public func hash(into hasher: inout Hasher) {
    user.hashBytes(into: &hasher)
    hasher.combine(device)
    hasher.combine(deviceName)
    hasher.combine(name)
  }
}

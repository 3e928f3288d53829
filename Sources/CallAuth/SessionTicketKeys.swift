internal import Crypto
internal import FoundationEssentials

/// The coordinators' keys for session tickets. The first signs, all verify, so that a new key can be put in front while
/// tickets of the old one are in use.
public struct SessionTicketKeys: Sendable {
  /// The content of a ticket. Its holder may send commands of this device through this edge.
  public struct Facts: Sendable, Equatable {
    public var app: String
    public var user: String
    public var device: String
    public var edge: UInt64
    /// The token's expiry and issue time, in seconds since 1970, and the number of its key.
    public var expires: UInt32
    public var issued: UInt32
    public var key: UInt32
    public init(
      app: String, user: String, device: String, edge: UInt64, expires: UInt32, issued: UInt32,
      key: UInt32
    ) {
      self.app = app
      self.user = user
      self.device = device
      self.edge = edge
      self.expires = expires
      self.issued = issued
      self.key = key
    }
  }

  /// 128 bits of HMAC-SHA256.
  public struct Code: Sendable, Equatable {
    public var high: UInt64
    public var low: UInt64
    public init(high: UInt64, low: UInt64) {
      self.high = high
      self.low = low
    }
  }

  private let keys: [SymmetricKey]

  /// - Parameter keys: 1 to 8, of 32 bytes or more each.
  /// - Throws: if there are too few or too many, or one is too short.
  public init(_ keys: [[UInt8]]) throws(PushCapabilityKeysError) {
    self.keys = try PushCapabilityKeys.checked(keys, of: "session tickets")
  }

  public func code(of facts: Facts) -> Code { Self.code(of: facts.signed, with: keys[0]) }

  public func accepts(_ code: Code, of facts: Facts) -> Bool {
    let signed = facts.signed
    var good = false
    for key in keys {
      let own = Self.code(of: signed, with: key)
      // Compares in constant time.
      if (own.high ^ code.high) | (own.low ^ code.low) == 0 { good = true }
    }
    return good
  }

  private static func code(of signed: [UInt8], with key: SymmetricKey) -> Code {
    HMAC<SHA256>.authenticationCode(for: signed, using: key).withUnsafeBytes { bytes in
      Code(
        high: bytes.loadUnaligned(as: UInt64.self).bigEndian,
        low: bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self).bigEndian)
    }
  }
}

extension SessionTicketKeys.Facts {
  private static let purpose = Array("callmesh session ticket\0".utf8)

  /// The signed bytes: the purpose, four numbers, and the names, each preceded by its length.
  fileprivate var signed: [UInt8] {
    var bytes = Self.purpose
    bytes.reserveCapacity(64 + app.utf8.count + user.utf8.count + device.utf8.count)
    bytes.append(bigEndian: edge)
    bytes.append(bigEndian: UInt64(expires) << 32 | UInt64(issued))
    bytes.append(bigEndian: UInt64(key))
    for name in [app, user, device] {
      bytes.append(bigEndian: UInt64(name.utf8.count))
      bytes.append(contentsOf: name.utf8)
    }
    return bytes
  }
}

extension [UInt8] {
  fileprivate mutating func append(bigEndian number: UInt64) {
    for shift in stride(from: UInt64(56), through: 0, by: -8) {
      append(UInt8(truncatingIfNeeded: number >> shift))
    }
  }
}

/// Printing shows no key.
extension SessionTicketKeys: CustomStringConvertible, CustomReflectable {
  public var description: String { "SessionTicketKeys(\(keys.count))" }
  public var customMirror: Mirror { Mirror(self, children: ["count": keys.count]) }
}

/// Derives an edge's public number from its secret, which it sends to coordinators only. So no edge can send commands
/// in the name of another one.
public enum EdgeNumber {
  public static func of(secret high: UInt64, _ low: UInt64) -> UInt64 {
    var bytes = Array("callmesh edge\0".utf8)
    bytes.append(bigEndian: high)
    bytes.append(bigEndian: low)
    return SHA256.hash(data: bytes).withUnsafeBytes {
      max(1, $0.loadUnaligned(as: UInt64.self).bigEndian)
    }
  }
}

internal import NIOCore

/// A peer's address: IPv6, or IPv4 mapped into it (`::ffff:192.0.2.1`), so that it is the same on a socket of
/// either family.
public struct PeerAddress: Hashable, Sendable {
  /// The first eight bytes.
  let high: UInt64
  /// The last eight bytes.
  let low: UInt64

  init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }

  init(v4 address: UInt32) { self.init(high: 0, low: 0xffff << 32 | UInt64(address)) }

  /// - Parameter text: as `192.0.2.1` or `2001:db8::1`.
  public init?(_ text: some StringProtocol) {
    // No zone, since `fe80::1%eth0` is an address on one machine only. No NUL, since C ends the text there.
    guard text.utf8.count <= 45, !text.utf8.contains(UInt8(ascii: "%")), !text.utf8.contains(0)
    else { return nil }
    self.init(try? SocketAddress(ipAddress: String(text), port: 0))
  }

  /// nil for the address of a socket that has none.
  init?(_ address: SocketAddress?) {
    switch address {
    case .v4?:
      let number = address?.withSockAddr { pointer, _ in
        // sockaddr_in: family, port, address.
        UnsafeRawPointer(pointer).loadUnaligned(fromByteOffset: 4, as: UInt32.self)
      }
      self.init(v4: UInt32(bigEndian: number ?? 0))
    case .v6?:
      let halves = address?.withSockAddr { pointer, _ in
        // sockaddr_in6: family, port, flow, address.
        let bytes = UnsafeRawPointer(pointer)
        return (
          bytes.loadUnaligned(fromByteOffset: 8, as: UInt64.self),
          bytes.loadUnaligned(fromByteOffset: 16, as: UInt64.self)
        )
      }
      self.init(high: UInt64(bigEndian: halves?.0 ?? 0), low: UInt64(bigEndian: halves?.1 ?? 0))
    case .unixDomainSocket?, nil:
      return nil
    }
  }

  var isIPv4: Bool { high == 0 && low >> 32 == 0xffff }

  /// The address as limits count it: an IPv4 address, or the /64 of an IPv6 address, since a peer with one address
  /// of a /64 usually has all of them.
  public var network: PeerAddress { isIPv4 ? self : PeerAddress(high: high, low: 0) }
}

extension PeerAddress: CustomStringConvertible {
  public var description: String {
    var bytes = ByteBuffer()
    if isIPv4 {
      bytes.writeInteger(UInt32(truncatingIfNeeded: low))
    } else {
      bytes.writeInteger(high)
      bytes.writeInteger(low)
    }
    return (try? SocketAddress(packedIPAddress: bytes, port: 0))?.ipAddress ?? "?"
  }
}

/// A range of addresses, as `10.0.0.0/8`, `2001:db8::/32`, or a single address.
public struct AddressRange: Hashable, Sendable {
  private let first: PeerAddress
  private let highMask: UInt64
  private let lowMask: UInt64

  public init?(_ text: some StringProtocol) {
    let parts = text.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false)
    guard let base = parts.first, let address = PeerAddress(base) else { return nil }
    var bits: UInt64 = 128
    if parts.count == 2 {
      let width: UInt64 = address.isIPv4 && !base.contains(":") ? 32 : 128
      guard parts[1].utf8.allSatisfy({ (48...57).contains($0) }), let given = UInt64(parts[1]),
        given <= width
      else { return nil }
      bits = given + 128 - width
    }
    highMask = UInt64.max << (64 - min(64, bits))
    lowMask = UInt64.max << (128 - max(64, bits))
    first = PeerAddress(high: address.high & highMask, low: address.low & lowMask)
  }

  public func contains(_ address: PeerAddress) -> Bool {
    address.high & highMask == first.high && address.low & lowMask == first.low
  }

  /// The ranges of a list, separated by commas; nil where one is not valid or there are more than 256.
  public static func list(_ text: String) -> [AddressRange]? {
    let parts = text.split(separator: ",", omittingEmptySubsequences: false)
    let ranges = parts.compactMap { AddressRange($0) }
    return ranges.count == parts.count && parts.count <= 256 ? ranges : nil
  }
}

extension AddressRange: CustomStringConvertible {
  /// `10.0.0.0/8`; a single address without its length.
  public var description: String {
    let bits = highMask.nonzeroBitCount + lowMask.nonzeroBitCount
    let length = first.isIPv4 ? bits - 96 : bits
    return bits == 128 ? "\(first)" : "\(first)/\(length)"
  }
}

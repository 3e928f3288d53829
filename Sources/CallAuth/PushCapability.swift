internal import CallCore

/// Allows the receiver of a push to decline one call, to report busy, or to query the call's state, for one device and
/// without a login.
///
/// Not a secret; its text, which `PushCapabilityKeys` signs, is.
public struct PushCapability: Sendable, Equatable {
  public var app: String
  /// The callee, whose device it is.
  public var user: String
  public var device: String
  /// The call's id: 16 bytes.
  public var call: [UInt8]
  /// Seconds since 1970. Valid before this time.
  public var expires: Int64

  public init(app: String, user: String, device: String, call: [UInt8], expires: Int64) {
    self.app = app
    self.user = user
    self.device = device
    self.call = call
    self.expires = expires
  }
}

extension PushCapability {
  /// The most bytes of its text: those of the longest names (a version, 5 bytes of time, the call, three names with
  /// their lengths, 64 bytes of signature, as base64url).
  public static let textBytesMaximum =
    (1 + 5 + 16 + 1 + IdentifierRules.appBytes.upperBound + 2 + IdentifierRules.userBytes.upperBound
      + 1
      + IdentifierRules.deviceBytes.upperBound + PushCapabilityKeys.signatureBytes + 2) / 3 * 4

  /// The first byte. In version 2 a signature follows the payload; in version 1 it was an HMAC, which only holders of
  /// the signing key could verify.
  static let version: UInt8 = 2
  static let formerVersion: UInt8 = 1
  private static let secondsMaximum: Int64 = 1 << 40 - 1

  /// The signed bytes:
  ///
  ///     version | expires, 5 bytes, big-endian | call, 16 bytes
  ///       | length and UTF-8 of app | of user | of device
  ///
  /// A length below 128 is one byte; a greater one is two, low seven bits first (a user id has up
  /// to 128 bytes). A push holds little, so every byte counts.
  func payload(version: UInt8 = Self.version) -> [UInt8] {
    var bytes = [version]
    bytes.reserveCapacity(32 + app.utf8.count + user.utf8.count + device.utf8.count)
    let seconds = min(max(expires, 0), Self.secondsMaximum)
    for shift in stride(from: Int64(32), through: 0, by: -8) {
      bytes.append(UInt8(truncatingIfNeeded: seconds >> shift))
    }
    for index in 0..<16 { bytes.append(index < call.count ? call[index] : 0) }
    for name in [app, user, device] {
      var length = name.utf8.count
      while length >= 0x80 {
        bytes.append(UInt8(truncatingIfNeeded: length) | 0x80)
        length >>= 7
      }
      bytes.append(UInt8(length))
      bytes.append(contentsOf: name.utf8)
    }
    return bytes
  }

  /// nil if the bytes are not a capability, regardless of the signature.
  init?(payload: ArraySlice<UInt8>) {
    var reader = PayloadReader(rest: payload)
    guard let version = reader.bytes(1)?.first,
      version == Self.version || version == Self.formerVersion, let seconds = reader.bytes(5),
      let call = reader.bytes(16), let app = reader.text(), let user = reader.text(),
      let device = reader.text(), reader.rest.isEmpty, IdentifierRules.isApp(app),
      IdentifierRules.isUser(user), IdentifierRules.isDevice(device)
    else { return nil }
    self.init(
      app: app, user: user, device: device, call: Array(call),
      expires: seconds.reduce(0) { $0 << 8 | Int64($1) })
  }
}

private struct PayloadReader {
  var rest: ArraySlice<UInt8>

  mutating func bytes(_ count: Int) -> ArraySlice<UInt8>? {
    guard rest.count >= count else { return nil }
    defer { rest = rest.dropFirst(count) }
    return rest.prefix(count)
  }

  mutating func text() -> String? {
    guard let first = rest.popFirst() else { return nil }
    var length = Int(first)
    if first >= 0x80 {
      // Valid names have at most 128 bytes.
      guard let second = rest.popFirst(), second == 1 else { return nil }
      length = Int(first & 0x7f) | Int(second) << 7
    }
    guard let utf8 = bytes(length) else { return nil }
    return String(validating: utf8, as: UTF8.self)
  }
}

internal import Crypto
internal import FoundationEssentials

/// The cluster's keys for what pushes carry: the first signs, all verify, so that a new one can be
/// put in front while pushes signed with the old one are still on their way.
///
/// The text of a capability is base64url of its payload and a truncated HMAC-SHA256 over it.
public struct PushCapabilityKeys: Sendable {
  public static let keyBytesMinimum = 32
  /// A capability is checked against each.
  public static let keysMaximum = 8
  /// 128 bits of HMAC-SHA256: each guess costs a request (RFC 2104, section 5, allows half).
  static let codeBytes = 16

  private let keys: [SymmetricKey]

  /// - Parameter keys: 1 to 8, of 32 bytes or more each.
  public init(_ keys: [[UInt8]]) throws(PushCapabilityKeysError) {
    self.keys = try Self.checked(keys, of: "push capabilities")
  }

  static func checked(
    _ keys: [[UInt8]], of what: String
  ) throws(PushCapabilityKeysError) -> [SymmetricKey] {
    guard (1...keysMaximum).contains(keys.count) else {
      throw PushCapabilityKeysError(
        "there are \(keys.count) keys for \(what); give 1 to \(keysMaximum)")
    }
    for (index, key) in keys.enumerated() where key.count < keyBytesMinimum {
      throw PushCapabilityKeysError(
        "key \(index + 1) for \(what) has \(key.count) bytes; make one of "
          + "\(keyBytesMinimum) or more with: openssl rand -base64 32")
    }
    return keys.map { SymmetricKey(data: $0) }
  }

  /// The text that goes into a push, good until the capability expires.
  ///
  /// A capability whose names no device can have is signed, too, and refused by `verify`.
  public func mint(_ capability: PushCapability) -> String {
    let payload = capability.payload
    return base64URL(Data(payload + Self.code(of: payload[...], with: keys[0])))
  }

  /// - Parameter now: seconds since 1970.
  /// - Throws: `expired` for one that would be good if it were not too late; else `notAccepted`.
  public func verify(_ text: String, now: Int64) throws(AuthFailure) -> PushCapability {
    guard text.utf8.count <= PushCapability.textBytesMaximum,
      let bytes = Self.bytes(ofBase64URL: text), bytes.count > Self.codeBytes
    else { throw .notAccepted }
    let payload = bytes.dropLast(Self.codeBytes)
    let code = bytes.suffix(Self.codeBytes)
    var good = false
    // All keys are tried, so that the time tells nothing of which one it was.
    for key in keys where Self.areEqual(Self.code(of: payload, with: key), code) { good = true }
    guard good, let capability = PushCapability(payload: payload) else { throw .notAccepted }
    guard now < capability.expires else { throw .expired }
    return capability
  }

  /// What is signed besides the payload, so that a code for something else is none for this, even
  /// where somebody uses the same key twice.
  private static let purpose = Array("callmesh push capability\0".utf8)

  private static func code(of payload: ArraySlice<UInt8>, with key: SymmetricKey) -> [UInt8] {
    var hmac = HMAC<SHA256>(key: key)
    hmac.update(data: purpose)
    hmac.update(data: payload)
    return Array(hmac.finalize().prefix(codeBytes))
  }

  /// In a time that does not depend on where they differ.
  private static func areEqual(_ one: [UInt8], _ other: ArraySlice<UInt8>) -> Bool {
    guard one.count == other.count else { return false }
    return zip(one, other).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
  }

  /// Only the one text that encodes the bytes: no padding, no white space, no stray bits.
  private static func bytes(ofBase64URL text: String) -> [UInt8]? {
    var plain = text.utf8.map { byte in
      switch byte {
      case UInt8(ascii: "-"): UInt8(ascii: "+")
      case UInt8(ascii: "_"): UInt8(ascii: "/")
      default: byte
      }
    }
    while plain.count % 4 != 0 { plain.append(UInt8(ascii: "=")) }
    guard let data = Data(base64Encoded: Data(plain)), base64URL(data) == text else { return nil }
    return Array(data)
  }
}

/// Neither prints a key, whatever prints it.
extension PushCapabilityKeys: CustomStringConvertible, CustomReflectable {
  public var description: String { "PushCapabilityKeys(\(keys.count))" }
  public var customMirror: Mirror { Mirror(self, children: ["count": keys.count]) }
}

/// Why keys of the cluster cannot be used. Holds no part of a key.
public struct PushCapabilityKeysError: Error, Sendable, Equatable, CustomStringConvertible {
  public var message: String
  init(_ message: String) { self.message = message }
  public var description: String { message }
}

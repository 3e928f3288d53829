internal import Crypto
internal import FoundationEssentials

/// The cluster's keys for what pushes carry: the first signs, all verify, so that a new one can be
/// put in front while pushes signed with the old one are still on their way.
///
/// Who makes pushes has the keys. Who is shown what they allow has the public halves, and can sign nothing.
///
/// The text of a capability is base64url of its payload and an Ed25519 signature of it.
public struct PushCapabilityKeys: Sendable {
  public static let keyBytesMinimum = 32
  /// A capability is checked against each.
  public static let keysMaximum = 8
  static let signatureBytes = 64
  /// Of the former version: 128 bits of HMAC-SHA256.
  private static let codeBytes = 16

  private let signers: [Curve25519.Signing.PrivateKey]
  private let verifiers: [Curve25519.Signing.PublicKey]
  /// Keys that made codes.
  private let former: [SymmetricKey]

  /// - Parameter keys: 1 to 8, of 32 bytes or more each.
  public init(_ keys: [[UInt8]]) throws(PushCapabilityKeysError) {
    former = try Self.checked(keys, of: "push capabilities")
    signers = keys.map(Self.signer)
    verifiers = signers.map(\.publicKey)
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

  /// Verifies only.
  /// - Parameters:
  ///   - publicKeys: 1 to 8.
  ///   - former: the keys themselves, where the cluster still keeps them for those who verify.
  public init(publicKeys: [[UInt8]], former: [[UInt8]] = []) throws(PushCapabilityKeysError) {
    guard (1...Self.keysMaximum).contains(publicKeys.count) else {
      throw PushCapabilityKeysError(
        "there are \(publicKeys.count) public keys for push capabilities; give 1 to "
          + "\(Self.keysMaximum)")
    }
    self.former = former.isEmpty ? [] : try Self.checked(former, of: "push capabilities")
    signers = []
    var keys: [Curve25519.Signing.PublicKey] = []
    for (index, bytes) in publicKeys.enumerated() {
      guard let key = try? Curve25519.Signing.PublicKey(rawRepresentation: bytes) else {
        throw PushCapabilityKeysError("public key \(index + 1) for push capabilities is none")
      }
      keys.append(key)
    }
    verifiers = keys
  }

  /// For those who verify.
  public var publicKeys: [[UInt8]] { verifiers.map { Array($0.rawRepresentation) } }

  /// The text that goes into a push, good until the capability expires; empty where there is no key to sign with.
  ///
  /// A capability whose names no device can have is signed, too, and refused by `verify`.
  public func mint(_ capability: PushCapability) -> String {
    let payload = capability.payload()
    guard let signature = try? signers.first?.signature(for: Self.purpose + payload) else {
      return ""
    }
    return base64URL(Data(payload) + signature)
  }

  /// - Parameter now: seconds since 1970.
  /// - Throws: `expired` for one that would be good if it were not too late; else `notAccepted`.
  public func verify(_ text: String, now: Int64) throws(AuthFailure) -> PushCapability {
    guard text.utf8.count <= PushCapability.textBytesMaximum,
      let bytes = Self.bytes(ofBase64URL: text), isSigned(bytes) || hasCode(bytes)
    else { throw .notAccepted }
    let proof =
      bytes[0] == PushCapability.version ? Self.signatureBytes : Self.codeBytes
    guard let capability = PushCapability(payload: bytes.dropLast(proof)) else {
      throw .notAccepted
    }
    guard now < capability.expires else { throw .expired }
    return capability
  }

  private func isSigned(_ bytes: [UInt8]) -> Bool {
    guard bytes.first == PushCapability.version, bytes.count > Self.signatureBytes else {
      return false
    }
    let signed = Self.purpose + bytes.dropLast(Self.signatureBytes)
    let signature = bytes.suffix(Self.signatureBytes)
    return verifiers.contains { $0.isValidSignature(signature, for: signed) }
  }

  /// What gateways of the former version made.
  private func hasCode(_ bytes: [UInt8]) -> Bool {
    guard bytes.first == PushCapability.formerVersion, bytes.count > Self.codeBytes else {
      return false
    }
    let payload = bytes.dropLast(Self.codeBytes)
    let code = bytes.suffix(Self.codeBytes)
    var good = false
    // All keys are tried, so that the time tells nothing of which one it was.
    for key in former where Self.areEqual(Self.code(of: payload, with: key), code) { good = true }
    return good
  }

  /// What is signed besides the payload, so that a signature of something else is none of this, even
  /// where somebody uses the same key twice.
  private static let purpose = Array("callmesh push capability\0".utf8)

  private static func signer(_ key: [UInt8]) -> Curve25519.Signing.PrivateKey {
    let seed = HKDF<SHA256>.deriveKey(
      inputKeyMaterial: SymmetricKey(data: key), info: purpose, outputByteCount: 32)
    // Any 32 bytes are a key.
    return (try? seed.withUnsafeBytes { try .init(rawRepresentation: Data($0)) }) ?? .init()
  }

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
    guard let bytes = base64URLBytes(Array(text.utf8)[...]), base64URL(Data(bytes)) == text
    else { return nil }
    return bytes
  }
}

/// Neither prints a key, whatever prints it.
extension PushCapabilityKeys: CustomStringConvertible, CustomReflectable {
  public var description: String { "PushCapabilityKeys(\(verifiers.count))" }
  public var customMirror: Mirror { Mirror(self, children: ["count": verifiers.count]) }
}

/// Why keys of the cluster cannot be used. Holds no part of a key.
public struct PushCapabilityKeysError: Error, Sendable, Equatable, CustomStringConvertible {
  public var message: String
  init(_ message: String) { self.message = message }
  public var description: String { message }
}

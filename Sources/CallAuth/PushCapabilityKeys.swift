internal import Crypto
internal import FoundationEssentials

/// The cluster's keys for push capabilities. The first signs, all verify, so that a new key can be put in front while
/// pushes signed with the old one are under way.
///
/// Gateways have the private keys. Edges and coordinators, which verify, have the public keys only.
///
/// The text of a capability is base64url of its payload and an Ed25519 signature of it.
public struct PushCapabilityKeys: Sendable {
  public static let keyBytesMinimum = 32
  /// Bounded, since a capability is verified with each.
  public static let keysMaximum = 8
  static let signatureBytes = 64
  /// The length of version 1's code: 128 bits of HMAC-SHA256.
  private static let codeBytes = 16

  private let signers: [Curve25519.Signing.PrivateKey]
  private let verifiers: [Curve25519.Signing.PublicKey]
  /// The keys of version 1's codes.
  private let former: [SymmetricKey]

  /// - Parameter keys: 1 to 8, of 32 bytes or more each.
  /// - Throws: if there are too few or too many, or one is too short.
  public init(_ keys: [[UInt8]]) throws(PushCapabilityKeysError) {
    former = try Self.checked(keys, of: "push capabilities")
    signers = keys.map(Self.signer)
    verifiers = signers.map(\.publicKey)
  }

  static func checked(
    _ keys: [[UInt8]], of what: String
  ) throws(PushCapabilityKeysError) -> [SymmetricKey] {
    try check(count: keys.count, "keys for \(what)")
    for (index, key) in keys.enumerated() where key.count < keyBytesMinimum {
      throw PushCapabilityKeysError(
        "key \(index + 1) for \(what) has \(key.count) bytes; make one of "
          + "\(keyBytesMinimum) or more with: openssl rand -base64 32")
    }
    return keys.map { SymmetricKey(data: $0) }
  }

  private static func check(count: Int, _ what: String) throws(PushCapabilityKeysError) {
    guard (1...keysMaximum).contains(count) else {
      throw PushCapabilityKeysError("there are \(count) \(what); give 1 to \(keysMaximum)")
    }
  }

  /// Keys that verify only.
  /// - Parameters:
  ///   - publicKeys: 1 to 8.
  ///   - former: the private keys, if the cluster still stores them for version 1's codes.
  /// - Throws: if there are too few or too many keys, or one is invalid.
  public init(publicKeys: [[UInt8]], former: [[UInt8]] = []) throws(PushCapabilityKeysError) {
    try Self.check(count: publicKeys.count, "public keys for push capabilities")
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

  /// The public keys, for nodes that verify only.
  public var publicKeys: [[UInt8]] { verifiers.map { Array($0.rawRepresentation) } }

  /// Returns the text of a capability for a push; empty if there is no key to sign with.
  ///
  /// Also signs a capability with invalid names, which `verify` refuses.
  public func mint(_ capability: PushCapability) -> String {
    let payload = capability.payload()
    guard let signature = try? signers.first?.signature(for: Self.purpose + payload) else {
      return ""
    }
    return base64URL(Data(payload) + signature)
  }

  /// - Parameter now: seconds since 1970.
  /// - Throws: `expired` for one that was valid, else `notAccepted`.
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

  /// Whether it is of version 1 and its code is valid.
  private func hasCode(_ bytes: [UInt8]) -> Bool {
    guard bytes.first == PushCapability.formerVersion, bytes.count > Self.codeBytes else {
      return false
    }
    let payload = bytes.dropLast(Self.codeBytes)
    let code = bytes.suffix(Self.codeBytes)
    var good = false
    // Tries all keys, so that the time does not depend on which one matches.
    for key in former where Self.areEqual(Self.code(of: payload, with: key), code) { good = true }
    return good
  }

  /// Signed with the payload (domain separation), so that no signature of something else is valid here, even if a key
  /// is used for both.
  private static let purpose = Array("callmesh push capability\0".utf8)

  private static func signer(_ key: [UInt8]) -> Curve25519.Signing.PrivateKey {
    let seed = HKDF<SHA256>.deriveKey(
      inputKeyMaterial: SymmetricKey(data: key), info: purpose, outputByteCount: 32)
    // Any 32 bytes are a valid key.
    return (try? seed.withUnsafeBytes { try .init(rawRepresentation: Data($0)) }) ?? .init()
  }

  private static func code(of payload: ArraySlice<UInt8>, with key: SymmetricKey) -> [UInt8] {
    var hmac = HMAC<SHA256>(key: key)
    hmac.update(data: purpose)
    hmac.update(data: payload)
    return Array(hmac.finalize().prefix(codeBytes))
  }

  /// Compares in constant time.
  private static func areEqual(_ one: [UInt8], _ other: ArraySlice<UInt8>) -> Bool {
    guard one.count == other.count else { return false }
    return zip(one, other).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
  }

  /// Decodes canonical base64url only: no padding, no white space, no stray bits.
  private static func bytes(ofBase64URL text: String) -> [UInt8]? {
    guard let bytes = base64URLBytes(Array(text.utf8)[...]), base64URL(Data(bytes)) == text
    else { return nil }
    return bytes
  }
}

/// Printing shows no key.
extension PushCapabilityKeys: CustomStringConvertible, CustomReflectable {
  public var description: String { "PushCapabilityKeys(\(verifiers.count))" }
  public var customMirror: Mirror { Mirror(self, children: ["count": verifiers.count]) }
}

/// Why keys of the cluster cannot be used. Contains no part of a key.
public struct PushCapabilityKeysError: Error, Sendable, Equatable, CustomStringConvertible {
  public var message: String
  init(_ message: String) { self.message = message }
  public var description: String { message }
}

internal import CallWire
package import Crypto
internal import Foundation

/// The claims of a provider token (a JWT, RFC 7519) whose form and signature are valid.
package struct ProviderToken: Sendable, Equatable {
  package var keyID: String
  package var team: String
  /// Seconds since 1970.
  package var issuedAt: Int64
}

extension ProviderToken {
  /// Reads a token and checks all of it that needs no clock: ES256, a known key, the key's own team,
  /// a whole `iat`, and a signature of 64 bytes R||S (RFC 7518 3.4).
  /// - Returns: nil for a token that APNs calls invalid.
  package init?(
    _ text: Substring, keys: [String: APNsProviderKey], leniency: APNsLeniency
  ) {
    // A real one has some 200 bytes.
    guard text.utf8.count <= 2048, let token = SimulatedJWT(String(text)),
      token.header["alg"]?.text == "ES256",
      let keyID = token.header["kid"]?.text, let key = keys[keyID],
      token.claims["iss"]?.text == key.team,
      let issuedAt = Self.issuedAt(token, leniency),
      key.accepts(token.signature, of: token.signed, leniency)
    else { return nil }
    self.init(keyID: keyID, team: key.team, issuedAt: issuedAt)
  }

  private static func issuedAt(_ token: SimulatedJWT, _ leniency: APNsLeniency) -> Int64? {
    var seconds = token.integer("iat")
    if leniency.contains(.stringIssuedAt), let text = token.claims["iat"]?.text {
      seconds = Int64(text)
    }
    // Anything else is not a time, and would overflow.
    return seconds.flatMap { 0...1 << 40 ~= $0 ? $0 : nil }
  }
}

/// One of a team's keys for provider tokens.
public struct APNsProviderKey: Sendable {
  /// 10 characters.
  public var id: String
  /// 10 characters.
  public var team: String
  /// nil: serves both, as keys from before 2025 do.
  public var environment: APNsEnvironment?
  /// The bundles of a topic-specific key; nil: all of the team.
  public var bundles: Set<String>?
  package var publicKey: P256.Signing.PublicKey
  /// The private key as the PEM file (PKCS #8) that Apple hands out as `AuthKey_….p8`.
  public let privateKeyPEM: String

  /// A fresh key.
  public init(
    id: String, team: String, environment: APNsEnvironment? = nil, bundles: Set<String>? = nil
  ) {
    let key = P256.Signing.PrivateKey()
    self.id = id
    self.team = team
    self.environment = environment
    self.bundles = bundles
    publicKey = key.publicKey
    privateKeyPEM = key.pemRepresentation
  }

  func accepts(_ signature: [UInt8], of signed: [UInt8], _ leniency: APNsLeniency) -> Bool {
    if signature.count == 64,
      let raw = try? P256.Signing.ECDSASignature(rawRepresentation: signature)
    {
      return publicKey.isValidSignature(raw, for: signed)
    }
    guard leniency.contains(.derSignatures),
      let der = try? P256.Signing.ECDSASignature(derRepresentation: signature)
    else { return false }
    return publicKey.isValidSignature(der, for: signed)
  }
}

/// Deviations that the real APNs is seen to tolerate although no document says so. A strict server
/// does not.
public struct APNsLeniency: OptionSet, Sendable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// A TLS handshake without ALPN.
  public static let noALPN = APNsLeniency(rawValue: 1 << 0)
  /// Signatures in DER in place of R||S.
  public static let derSignatures = APNsLeniency(rawValue: 1 << 1)
  /// `iat` as a string of digits.
  public static let stringIssuedAt = APNsLeniency(rawValue: 1 << 2)
  /// A connection that opens streams before it read our first SETTINGS: HTTP/2 allows it 100 or more,
  /// APNs one. A stream too many is then refused, the connection goes on.
  public static let earlyStreams = APNsLeniency(rawValue: 1 << 3)
}

public import CallCore
internal import CallWire
internal import Crypto
internal import Foundation

/// The claims of a provider token (a JWT, RFC 7519) whose form and signature are valid.
package struct ProviderToken: Sendable, Equatable {
  package var keyID: String
  package var team: String
  /// Seconds since 1970.
  package var issuedAt: Int64
}

extension ProviderToken {
  /// Parses a token and checks everything that needs no clock: ES256, a known key, the key's team, a whole `iat`, and a
  /// signature of 64 bytes R||S (RFC 7518 3.4).
  /// - Returns: nil for a token that APNs calls invalid.
  package init?(_ text: Substring, keys: [String: APNsProviderKey], leniency: APNsLeniency) {
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
    // Anything else is no time, and would overflow.
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
  private let key = P256.Signing.PrivateKey()
  /// The private key as the PEM file (PKCS #8) that Apple hands out as `AuthKey_….p8`.
  public var privateKeyPEM: String { key.pemRepresentation }

  /// A fresh key.
  public init(
    id: String, team: String, environment: APNsEnvironment? = nil, bundles: Set<String>? = nil
  ) {
    self.id = id
    self.team = team
    self.environment = environment
    self.bundles = bundles
  }

  func accepts(_ signature: [UInt8], of signed: [UInt8], _ leniency: APNsLeniency) -> Bool {
    if signature.count == 64,
      let raw = try? P256.Signing.ECDSASignature(rawRepresentation: signature)
    {
      return key.publicKey.isValidSignature(raw, for: signed)
    }
    guard leniency.contains(.derSignatures),
      let der = try? P256.Signing.ECDSASignature(derRepresentation: signature)
    else { return false }
    return key.publicKey.isValidSignature(der, for: signed)
  }
}

/// Deviations that the real APNs tolerates, although no document allows them. A strict server does not.
public struct APNsLeniency: OptionSet, Sendable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// A TLS handshake without ALPN.
  public static let noALPN = APNsLeniency(rawValue: 1 << 0)
  /// Signatures in DER in place of R||S.
  public static let derSignatures = APNsLeniency(rawValue: 1 << 1)
  /// `iat` as a string of digits.
  public static let stringIssuedAt = APNsLeniency(rawValue: 1 << 2)
  /// A connection that opens streams before it has read our first SETTINGS. HTTP/2 allows 100 or more, APNs one. An
  /// excess stream is then refused, and the connection continues.
  public static let earlyStreams = APNsLeniency(rawValue: 1 << 3)
}

extension APNsProviderKey {
  /// Signs a provider token as a sender does, for tests of the simulator and for manual use.
  /// - Parameter der: whether the signature is in DER, which no document allows.
  public func token(issuedAt: Timestamp, der: Bool = false) -> String {
    token(
      header: "{\"alg\":\"ES256\",\"kid\":\"\(id)\"}",
      claims: "{\"iss\":\"\(team)\",\"iat\":\(issuedAt.microseconds / 1_000_000)}", der: der)
  }

  /// Signs any header and claims, also wrong ones.
  package func token(header: String, claims: String, der: Bool = false) -> String {
    let signed = Base64URL.text(Array(header.utf8)) + "." + Base64URL.text(Array(claims.utf8))
    guard let signature = try? key.signature(for: Array(signed.utf8)) else { return "" }
    let bytes = der ? Array(signature.derRepresentation) : Array(signature.rawRepresentation)
    return signed + "." + Base64URL.text(bytes)
  }
}

/// The registered teams with their bundles and keys, and a cache of verified provider tokens.
public struct APNsTeams: Sendable {
  /// The bundle ids of each team.
  public private(set) var bundles: [String: Set<String>] = [:]
  package private(set) var keys: [String: APNsProviderKey] = [:]

  /// Each signature is verified once, since a sender uses a token for tens of minutes. Policy when full: the cache is
  /// cleared.
  private var read: [Substring: ProviderToken?] = [:]
  static let tokensReadMax = 4096

  public init() {}

  public mutating func add(_ key: APNsProviderKey, bundles: Set<String> = []) {
    keys[key.id] = key
    self.bundles[key.team, default: []].formUnion(bundles)
    read.removeAll()
  }

  /// A token's claims; nil if it is invalid.
  package mutating func token(_ text: Substring, _ leniency: APNsLeniency) -> ProviderToken? {
    if let known = read[text] { return known }
    let token = ProviderToken(text, keys: keys, leniency: leniency)
    if read.count >= Self.tokensReadMax { read.removeAll(keepingCapacity: true) }
    read[Substring(String(text))] = .some(token)
    return token
  }
}

package import Crypto
internal import Foundation

/// What a provider token (a JWT, RFC 7519) says, once its form and its signature were found good.
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
    // Whatever is longer is none of ours: a real one has some 200 bytes.
    guard text.utf8.count <= 2048 else { return nil }
    let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard parts.count == 3, let head = base64URL(parts[0]), let body = base64URL(parts[1]),
      let signature = base64URL(parts[2]),
      let header = JSONScan.object(head), let claims = JSONScan.object(body),
      header["alg"] == .string("ES256"),
      case .string(let keyID)? = header["kid"], let key = keys[keyID],
      claims["iss"] == .string(key.team),
      let issuedAt = Self.seconds(claims["iat"], leniency)
    else { return nil }
    let signed = text.utf8[parts[0].startIndex..<parts[1].endIndex]
    guard key.accepts(signature, of: Array(signed), leniency) else { return nil }
    self.init(keyID: keyID, team: key.team, issuedAt: issuedAt)
  }

  private static func seconds(_ value: JSONScan.Value?, _ leniency: APNsLeniency) -> Int64? {
    switch value {
    // Negative, or so large that arithmetic would overflow, is no time.
    case .integer(let seconds): 0...1 << 40 ~= seconds ? seconds : nil
    case .string(let text) where leniency.contains(.stringIssuedAt):
      Int64(text).flatMap { 0...1 << 40 ~= $0 ? $0 : nil }
    case .string, .other, nil: nil
    }
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

/// What the real APNs is seen to put up with although no document says so. A strict server does not.
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

/// Base64 for URLs without padding (RFC 7515), in its one canonical form; nil if it is not.
package func base64URL(_ text: some Collection<UInt8>) -> [UInt8]? {
  guard text.count % 4 != 1 else { return nil }
  var bytes: [UInt8] = []
  bytes.reserveCapacity(text.count * 3 / 4)
  var bits: UInt32 = 0
  var count: UInt32 = 0
  for character in text {
    let six: UInt8
    switch character {
    case 0x41...0x5A: six = character - 0x41
    case 0x61...0x7A: six = character - 0x61 + 26
    case 0x30...0x39: six = character - 0x30 + 52
    case UInt8(ascii: "-"): six = 62
    case UInt8(ascii: "_"): six = 63
    default: return nil
    }
    bits = bits << 6 | UInt32(six)
    count += 6
    if count >= 8 {
      count -= 8
      bytes.append(UInt8(truncatingIfNeeded: bits >> count))
      bits &= (1 << count) - 1
    }
  }
  return bits == 0 ? bytes : nil
}

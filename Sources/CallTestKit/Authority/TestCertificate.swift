internal import Crypto
internal import Foundation

/// A certificate of an authority of tests, or one that such an authority has signed (RFC 5280): ECDSA over P-256.
struct TestCertificate {
  struct Alternatives {
    /// Host names.
    var names: [String] = []
    /// IPv4 addresses, and `::1`.
    var addresses: [String] = []
  }

  /// The common name of the subject.
  var subject: String
  var key: P256.Signing.PublicKey
  /// The time from now until it expires; negative: it has expired. It is valid from an hour before now on.
  var seconds: Double
  /// nil: it is an authority's.
  var alternatives: Alternatives?

  /// - Parameters:
  ///   - name: the common name of the issuer.
  ///   - issuer: signs.
  /// - Returns: PEM text.
  /// - Throws: the error of signing.
  func signed(name: String, by issuer: P256.Signing.PrivateKey) throws -> String {
    let algorithm = DER.sequence([DER.identifier([0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02])])
    let serial = [0x01] + (0..<15).map { _ in UInt8.random(in: 0...255) }
    let content = DER.sequence([
      DER.node(0xa0, DER.node(0x02, [2])),
      DER.node(0x02, serial),
      algorithm,
      Self.name(name),
      DER.sequence([Self.time(inSeconds: -3600), Self.time(inSeconds: seconds)]),
      Self.name(subject),
      Array(key.derRepresentation),
      DER.node(0xa3, DER.sequence(extensions)),
    ])
    let signature = try issuer.signature(for: content).derRepresentation
    let bytes = DER.sequence([content, algorithm, DER.node(0x03, [0] + signature)])
    let text = Data(bytes).base64EncodedString(options: [
      .lineLength64Characters, .endLineWithLineFeed,
    ])
    return "-----BEGIN CERTIFICATE-----\n\(text)\n-----END CERTIFICATE-----\n"
  }

  private var extensions: [[UInt8]] {
    guard let alternatives else {
      return [
        Self.extension(0x13, isCritical: true, DER.sequence([DER.node(0x01, [0xff])])),
        // keyCertSign and cRLSign.
        Self.extension(0x0f, isCritical: true, DER.node(0x03, [1, 0x06])),
      ]
    }
    let usage: [UInt8] = [0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03]
    let names =
      alternatives.names.map { DER.node(0x82, Array($0.utf8)) }
      + alternatives.addresses.map { DER.node(0x87, Self.bytes(ofAddress: $0)) }
    return [
      Self.extension(0x13, isCritical: true, DER.sequence([])),
      // For servers and for clients.
      Self.extension(
        0x25, DER.sequence([DER.identifier(usage + [1]), DER.identifier(usage + [2])])),
      Self.extension(0x11, DER.sequence(names)),
    ]
  }

  /// - Parameter last: the last part of its identifier, 2.5.29.x.
  private static func `extension`(
    _ last: UInt8, isCritical: Bool = false, _ value: [UInt8]
  ) -> [UInt8] {
    DER.sequence([
      DER.identifier([0x55, 0x1d, last]), isCritical ? DER.node(0x01, [0xff]) : [],
      DER.node(0x04, value),
    ])
  }

  private static func name(_ common: String) -> [UInt8] {
    let part = DER.sequence([
      DER.identifier([0x55, 0x04, 0x03]), DER.node(0x0c, Array(common.utf8)),
    ])
    return DER.sequence([DER.node(0x31, part)])
  }

  /// UTCTime, which is for years before 2050.
  private static func time(inSeconds seconds: Double) -> [UInt8] {
    let text = Date(timeIntervalSinceNow: seconds).ISO8601Format().filter { !"-:T".contains($0) }
    return DER.node(0x17, Array(text.dropFirst(2).utf8))
  }

  private static func bytes(ofAddress address: String) -> [UInt8] {
    address == "::1"
      ? [UInt8](repeating: 0, count: 15) + [1]
      : address.split(separator: ".").compactMap { UInt8($0) }
  }
}

/// As much of the distinguished encoding rules (X.690) as a certificate needs.
private enum DER {
  static func node(_ tag: UInt8, _ content: [UInt8]) -> [UInt8] {
    let count = content.count
    let length: [UInt8] =
      switch count {
      case ..<128: [UInt8(count)]
      case ..<256: [0x81, UInt8(count)]
      default: [0x82, UInt8(count >> 8), UInt8(count & 0xff)]
      }
    return [tag] + length + content
  }

  static func sequence(_ parts: [[UInt8]]) -> [UInt8] { node(0x30, Array(parts.joined())) }

  /// - Parameter bytes: an object identifier, encoded.
  static func identifier(_ bytes: [UInt8]) -> [UInt8] { node(0x06, bytes) }
}

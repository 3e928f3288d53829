internal import Crypto
internal import Foundation
package import NIOSSL
internal import SwiftASN1
internal import X509

/// A certificate authority of a test's own, and a certificate of it for the loopback.
package final class LoopbackAuthority: Sendable {
  /// A certificate and its key, in PEM.
  package struct Identity: Sendable {
    package var certificate: String
    package var key: String

    package init(certificate: String, key: String) {
      self.certificate = certificate
      self.key = key
    }
  }

  /// PEM, for those who are to trust it. Goes with this object.
  package let caFile: String
  /// The same as text.
  package let certificate: String
  private let signer: Certificate.PrivateKey
  private let name: DistinguishedName
  private let identity: Identity

  /// - Parameter names: what the certificate is for, beside 127.0.0.1.
  package init(names: [String] = ["localhost"]) throws {
    signer = Certificate.PrivateKey(P256.Signing.PrivateKey())
    name = try DistinguishedName { CommonName("loopback authority") }
    let authority = try Certificate(
      version: .v3, serialNumber: .init(), publicKey: signer.publicKey,
      notValidBefore: Date().addingTimeInterval(-Self.before),
      notValidAfter: Date().addingTimeInterval(86_400 * 365), issuer: name, subject: name,
      signatureAlgorithm: .ecdsaWithSHA256,
      extensions: try Certificate.Extensions {
        Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
        Critical(KeyUsage(keyCertSign: true))
      }, issuerPrivateKey: signer)
    certificate = try authority.serializeAsPEM().pemString
    caFile = NSTemporaryDirectory() + "/callmesh-ca-\(UUID().uuidString).pem"
    identity = try Self.issue(names, ["127.0.0.1"], seconds: 86_400, signer, name)
    try Data(certificate.utf8).write(to: URL(filePath: caFile))
  }

  deinit { try? FileManager.default.removeItem(atPath: caFile) }

  /// Another certificate of this authority.
  /// - Parameters:
  ///   - names: the hosts that it is for.
  ///   - addresses: the IPv4 addresses that it is for.
  ///   - seconds: from now until it expires; less than 0: it has.
  package func issue(
    names: [String] = ["localhost"], addresses: [String] = ["127.0.0.1"],
    seconds: Double = 86_400
  ) throws -> Identity {
    try Self.issue(names, addresses, seconds: seconds, signer, name)
  }

  /// From a certificate's beginning until it is made.
  private static let before: Double = 3600

  private static func issue(
    _ names: [String], _ addresses: [String], seconds: Double, _ signer: Certificate.PrivateKey,
    _ issuer: DistinguishedName
  ) throws -> Identity {
    let key = P256.Signing.PrivateKey()
    let alternatives: [GeneralName] =
      names.map { .dnsName($0) }
      + addresses.map { address in
        .ipAddress(
          ASN1OctetString(contentBytes: address.split(separator: ".").compactMap { UInt8($0) }[...])
        )
      }
    let certificate = try Certificate(
      version: .v3, serialNumber: .init(), publicKey: Certificate.PrivateKey(key).publicKey,
      notValidBefore: Date().addingTimeInterval(-before),
      notValidAfter: Date().addingTimeInterval(seconds), issuer: issuer,
      subject: try DistinguishedName { CommonName("loopback") },
      signatureAlgorithm: .ecdsaWithSHA256,
      extensions: try Certificate.Extensions {
        Critical(BasicConstraints.notCertificateAuthority)
        try ExtendedKeyUsage([.serverAuth])
        SubjectAlternativeNames(alternatives)
      }, issuerPrivateKey: signer)
    return Identity(
      certificate: try certificate.serializeAsPEM().pemString, key: key.pemRepresentation)
  }

  /// - Parameters:
  ///   - protocols: what the server speaks, best first.
  ///   - identity: what it shows; nil: what `init` was told.
  package func serverContext(
    protocols: [String], identity other: Identity? = nil
  ) throws -> NIOSSLContext {
    let identity = other ?? identity
    var configuration = TLSConfiguration.makeServerConfiguration(
      certificateChain: [
        .certificate(
          try NIOSSLCertificate(bytes: Array(identity.certificate.utf8), format: .pem))
      ],
      privateKey: .privateKey(
        try NIOSSLPrivateKey(bytes: Array(identity.key.utf8), format: .pem)))
    configuration.applicationProtocols = protocols
    return try NIOSSLContext(configuration: configuration)
  }
}

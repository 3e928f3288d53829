internal import Crypto
internal import Foundation
package import NIOSSL
internal import SwiftASN1
internal import X509

/// A certificate authority of a test's own, and a certificate of it for the loopback.
package final class LoopbackAuthority: Sendable {
  /// PEM, for those who are to trust it. Goes with this object.
  package let caFile: String
  private let leaf: NIOSSLCertificate
  private let key: NIOSSLPrivateKey

  /// - Parameter names: what the certificate is for, beside 127.0.0.1.
  package init(names: [String] = ["localhost"]) throws {
    let authorityKey = Certificate.PrivateKey(P256.Signing.PrivateKey())
    let leafSigning = P256.Signing.PrivateKey()
    let authorityName = try DistinguishedName { CommonName("loopback authority") }
    let start = Date().addingTimeInterval(-3600)
    let end = Date().addingTimeInterval(86_400)
    let authority = try Certificate(
      version: .v3, serialNumber: .init(), publicKey: authorityKey.publicKey,
      notValidBefore: start, notValidAfter: end, issuer: authorityName, subject: authorityName,
      signatureAlgorithm: .ecdsaWithSHA256,
      extensions: try Certificate.Extensions {
        Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
        Critical(KeyUsage(keyCertSign: true))
      }, issuerPrivateKey: authorityKey)
    let alternatives: [GeneralName] =
      names.map { .dnsName($0) } + [.ipAddress(ASN1OctetString(contentBytes: [127, 0, 0, 1]))]
    let certificate = try Certificate(
      version: .v3, serialNumber: .init(),
      publicKey: Certificate.PrivateKey(leafSigning).publicKey, notValidBefore: start,
      notValidAfter: end, issuer: authorityName,
      subject: try DistinguishedName { CommonName("loopback") },
      signatureAlgorithm: .ecdsaWithSHA256,
      extensions: try Certificate.Extensions {
        Critical(BasicConstraints.notCertificateAuthority)
        try ExtendedKeyUsage([.serverAuth])
        SubjectAlternativeNames(alternatives)
      }, issuerPrivateKey: authorityKey)
    let pem = try certificate.serializeAsPEM().pemString
    leaf = try NIOSSLCertificate(bytes: Array(pem.utf8), format: .pem)
    key = try NIOSSLPrivateKey(bytes: Array(leafSigning.pemRepresentation.utf8), format: .pem)
    caFile = NSTemporaryDirectory() + "/callmesh-ca-\(UUID().uuidString).pem"
    try Data(authority.serializeAsPEM().pemString.utf8).write(to: URL(filePath: caFile))
  }

  deinit { try? FileManager.default.removeItem(atPath: caFile) }

  /// - Parameter protocols: what the server speaks, best first.
  package func serverContext(protocols: [String]) throws -> NIOSSLContext {
    var configuration = TLSConfiguration.makeServerConfiguration(
      certificateChain: [.certificate(leaf)], privateKey: .privateKey(key))
    configuration.applicationProtocols = protocols
    return try NIOSSLContext(configuration: configuration)
  }
}

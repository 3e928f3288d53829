internal import Crypto
internal import Foundation
internal import SwiftASN1
internal import X509

/// A certificate authority of a test's own and what it signed, as files (PEM) that go with this object.
package final class CertificateFolder: Sendable {
  package let path: String
  package var caFile: String { path + "/ca.pem" }
  private let key = P256.Signing.PrivateKey()
  private let name: DistinguishedName

  package init() throws {
    path = NSTemporaryDirectory() + "/callmesh-certificates-\(UUID().uuidString)"
    name = try DistinguishedName { CommonName("test authority") }
    try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    let authority = try certificate(
      for: key, subject: name,
      Certificate.Extensions {
        Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
        Critical(KeyUsage(keyCertSign: true))
      })
    try authority.write(toFile: caFile, atomically: true, encoding: .utf8)
  }

  deinit { try? FileManager.default.removeItem(atPath: path) }

  /// Makes `NAME.crt` and `NAME.key`.
  /// - Parameters:
  ///   - hosts: the names that it is for.
  ///   - addresses: the IPv4 addresses that it is for.
  package func issue(
    _ file: String, hosts: [String] = [], addresses: [[UInt8]] = []
  ) throws -> (certificate: String, key: String) {
    let leaf = P256.Signing.PrivateKey()
    let names: [GeneralName] =
      hosts.map { .dnsName($0) }
      + addresses.map { .ipAddress(ASN1OctetString(contentBytes: ArraySlice($0))) }
    let text = try certificate(
      for: leaf, subject: DistinguishedName { CommonName(file) },
      Certificate.Extensions {
        Critical(BasicConstraints.notCertificateAuthority)
        try ExtendedKeyUsage([.serverAuth, .clientAuth])
        SubjectAlternativeNames(names.isEmpty ? [.dnsName(file)] : names)
      })
    let paths = (certificate: "\(path)/\(file).crt", key: "\(path)/\(file).key")
    try text.write(toFile: paths.certificate, atomically: true, encoding: .utf8)
    try leaf.pemRepresentation.write(toFile: paths.key, atomically: true, encoding: .utf8)
    return paths
  }

  private func certificate(
    for subjectKey: P256.Signing.PrivateKey, subject: DistinguishedName,
    _ extensions: Certificate.Extensions
  ) throws -> String {
    try Certificate(
      version: .v3, serialNumber: .init(),
      publicKey: Certificate.PrivateKey(subjectKey).publicKey,
      notValidBefore: Date().addingTimeInterval(-3600),
      notValidAfter: Date().addingTimeInterval(86_400), issuer: name, subject: subject,
      signatureAlgorithm: .ecdsaWithSHA256, extensions: extensions,
      issuerPrivateKey: Certificate.PrivateKey(key)
    ).serializeAsPEM().pemString
  }
}

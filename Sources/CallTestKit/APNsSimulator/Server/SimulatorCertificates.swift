internal import Crypto
internal import FoundationEssentials
internal import NIOSSL
internal import SwiftASN1
internal import X509

/// An authority and a server's certificate for 127.0.0.1, ::1 and localhost, made anew for each
/// simulator: no key lies about in a repository, none expires there.
struct SimulatorCertificates {
  let authorityPEM: String
  let chain: [NIOSSLCertificateSource]
  let key: NIOSSLPrivateKeySource

  init(_ kind: APNsSimulatorOptions.Certificate, host: String) throws {
    let authority = try Authority()
    let signer = kind == .untrusted ? try Authority() : authority
    let key = P256.Signing.PrivateKey()
    let now = Date()
    var names: [GeneralName] = [
      .dnsName("localhost"), .ipAddress(ASN1OctetString(contentBytes: [127, 0, 0, 1])),
      .ipAddress(ASN1OctetString(contentBytes: [UInt8](repeating: 0, count: 15) + [1])),
    ]
    if !host.isEmpty, host.contains(where: \.isLetter) { names.append(.dnsName(host)) }
    if kind == .otherName { names = [.dnsName("elsewhere.example")] }
    let certificate = try Certificate(
      version: .v3, serialNumber: .init(),
      publicKey: .init(key.publicKey),
      notValidBefore: now.addingTimeInterval(-86400 * 10),
      notValidAfter: now.addingTimeInterval(kind == .expired ? -86400 : 86400 * 30),
      issuer: signer.name, subject: try DistinguishedName { CommonName("APNs simulator") },
      signatureAlgorithm: .ecdsaWithSHA256,
      extensions: try Certificate.Extensions {
        Critical(BasicConstraints.notCertificateAuthority)
        try ExtendedKeyUsage([.serverAuth])
        SubjectAlternativeNames(names)
      },
      issuerPrivateKey: signer.key)
    authorityPEM = try authority.certificate.serializeAsPEM().pemString
    chain = [
      .certificate(
        try NIOSSLCertificate(
          bytes: Array(certificate.serializeAsPEM().pemString.utf8), format: .pem))
    ]
    self.key = .privateKey(
      try NIOSSLPrivateKey(bytes: Array(key.pemRepresentation.utf8), format: .pem))
  }

  private struct Authority {
    let key: Certificate.PrivateKey
    let name: DistinguishedName
    let certificate: Certificate

    init() throws {
      let key = Certificate.PrivateKey(P256.Signing.PrivateKey())
      let name = try DistinguishedName { CommonName("APNs simulator authority") }
      let now = Date()
      certificate = try Certificate(
        version: .v3, serialNumber: .init(), publicKey: key.publicKey,
        notValidBefore: now.addingTimeInterval(-86400 * 10),
        notValidAfter: now.addingTimeInterval(86400 * 30), issuer: name, subject: name,
        signatureAlgorithm: .ecdsaWithSHA256,
        extensions: try Certificate.Extensions {
          Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
          Critical(KeyUsage(keyCertSign: true, cRLSign: true))
        },
        issuerPrivateKey: key)
      self.key = key
      self.name = name
    }
  }
}

import CallBus
import CallCore
import CallEdge
import CallTelemetry
import CallTestKit
import CallWire
import Foundation
import NIOCore
import NIOSSL
import Testing

/// The certificate at the devices' port: its renewal, and files that are refused.
extension TLSTests {
  @Test func aRenewedCertificateDropsNoSession() async throws {
    let files = try TLSFiles()
    let tls = try files.edgeTLS()
    try await EdgeFixture.run {
      $0.tls = tls
    } _: { edge in
      let context = try files.client()
      let before = try await edge.client(context)
      try await before.attach(token: try await edge.token("ann"), device: "phone")
      let former = try await before.serial()
      try files.renew(seconds: 1000)
      try tls.reload()
      let after = try await edge.client(context)
      #expect(try await after.request("GET", "/healthz").status == 200)
      #expect(try await after.serial() != former)
      before.say(2, .ping)
      #expect(try await before.reply().id == 2)
      #expect(tls.refused == 0)
    }
  }

  @Test func aBadPairIsRefusedAndTheFormerOneStays() async throws {
    let files = try TLSFiles()
    let tls = try files.edgeTLS()
    try await EdgeFixture.run {
      $0.tls = tls
    } _: { edge in
      let context = try files.client()
      let before = try await edge.client(context)
      #expect(try await before.request("GET", "/healthz").status == 200)
      // The new certificate is there, and its key not yet.
      try files.authority.issue().certificate
        .write(toFile: files.certificateFile, atomically: true, encoding: .utf8)
      let error = #expect(throws: EdgeCertificateError.self) { try tls.reload() }
      #expect(error?.part == .key)
      #expect(edge.metric("callmesh_edge_certificate_refused_total") == 1)
      let after = try await edge.client(context)
      #expect(try await after.request("GET", "/healthz").status == 200)
      #expect(try await after.serial() == (try await before.serial()))
    }
  }

  @Test func operatorsSeeWhenItExpires() async throws {
    let files = try TLSFiles()
    let tls = try files.edgeTLS()
    try await EdgeFixture.run {
      $0.tls = tls
    } _: { edge in
      let answer = try await edge.bus.request(
        edge.shards.subjects.adminStatus, [], timeout: .seconds(10))
      let status = try JSONDecoder().decode(NodeStatus.self, from: Data(answer.bytes))
      #expect(status.edge?.certificateExpires == tls.certificate.expires)
      let left = edge.metric("callmesh_edge_certificate_expires_seconds")
      // The edge's clock in tests is another one than the certificate's.
      #expect(abs(left - Double(tls.certificate.expires - wallSeconds)) < 60)
    }
    try await EdgeFixture.run { edge in
      #expect(edge.metric("callmesh_edge_certificate_expires_seconds") == .infinity)
    }
  }

  // MARK: Files

  private func refusal(_ files: TLSFiles) throws -> EdgeCertificateError {
    try #require(#expect(throws: EdgeCertificateError.self) { try files.edgeTLS() })
  }

  @Test func aPairThatDoesNotGoTogether() throws {
    let files = try TLSFiles()
    try files.write(files.authority.issue().certificate, files.authority.issue().key)
    let error = try refusal(files)
    #expect(error.part == .key && error.file == files.keyFile)
    #expect(error.what.contains(files.certificateFile))
    // As with the authority's own certificate in front of the server's.
    let identity = try files.authority.issue()
    try files.write(files.authority.certificate + "\n" + identity.certificate, identity.key)
    #expect(try refusal(files).remedy.contains("comes first"))
    try files.write(identity.certificate + "\n" + files.authority.certificate, identity.key)
    _ = try files.edgeTLS()
  }

  @Test func filesThatAreNoCertificateAndNoKey() throws {
    let files = try TLSFiles()
    let identity = try files.authority.issue()
    try files.write("nothing", identity.key)
    #expect(try refusal(files).part == .certificate)
    try files.write(identity.certificate, identity.certificate)
    #expect(try refusal(files).what == "it holds no private key in PEM")
    let encrypted =
      "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"
    try files.write(identity.certificate, encrypted)
    #expect(try refusal(files).what == "the key is encrypted")
    try FileManager.default.removeItem(atPath: files.keyFile)
    let missing = try refusal(files)
    #expect(missing.part == .key && missing.what == "the file cannot be read (there is none)")
  }
}

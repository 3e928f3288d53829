import CallBus
import CallProcesses
import CallTestKit
import Foundation
import NATSBus
import Testing

/// `tls://` means TLS with the server that was named, or no connection and not a word of who we are.
@Suite(.timeLimit(.minutes(2)))
struct TLSTests {
  private static let password = "s3cr3t"

  private func options(ca: String? = nil) -> NATSOptions {
    var options = NATSOptions.test()
    options.access.ca = ca
    // No handshake fails for a busy machine.
    options.connectTimeout = .seconds(30)
    return options
  }

  private func refusal(_ url: String, _ options: NATSOptions) async -> BusError? {
    do {
      await (try NATSBus.connect(url: url, name: "test", options: options)).close()
      return nil
    } catch {
      return error as? BusError
    }
  }

  @Test(arguments: [
    "tls://ann:s3cr3t@127.0.0.1:PORT", "tls://127.0.0.1:1,nats://ann:s3cr3t@127.0.0.1:PORT",
  ])
  func aServerWithoutTLSHearsNothing(list: String) async throws {
    let server = try FalseServer()
    defer { server.stop() }
    let url = list.replacing("PORT", with: "\(server.port)")
    let error = await refusal(url, options())
    if !list.contains(",") { #expect(error?.code == .noTLS) }
    #expect(error != nil && server.clients > 0)
    #expect(!server.text.contains("CONNECT") && !server.text.contains(Self.password))
  }

  /// Whatever names the certificates demands TLS, also of a URL that does not.
  @Test func anAuthorityDemandsTLS() async throws {
    let server = try FalseServer()
    defer { server.stop() }
    let folder = try LoopbackAuthority()
    var options = options(ca: folder.caFile)
    options.access.user = "ann"
    options.access.passwordFile = folder.path + "/password"
    try Data("\(Self.password)\n".utf8).write(to: URL(filePath: folder.path + "/password"))
    #expect(await refusal("nats://127.0.0.1:\(server.port)", options) != nil)
    #expect(server.clients > 0 && !server.text.contains("CONNECT"))
  }

  /// Nor does one to which another points.
  @Test func discoveredServersAreNotFollowed() async throws {
    let other = try FalseServer()
    defer { other.stop() }
    let server = try FalseServer("\"connect_urls\":[\"127.0.0.1:\(other.port)\"]")
    defer { server.stop() }
    let bus = try await NATSBus.connect(
      url: "nats://ann:\(Self.password)@127.0.0.1:\(server.port)", name: "test",
      options: options())
    server.stop()
    while bus.statistics.connected { try await Task.sleep(for: .milliseconds(5)) }
    // By now the library has tried all that it would try.
    _ = await refusal("nats://127.0.0.1:\(server.port)", options())
    #expect(other.clients == 0)
    await bus.close()
  }

  @Test func aServerThatFallsSilentInTheHandshakeIsNotWaitedFor() async throws {
    let server = try FalseServer("\"tls_required\":true", answers: false)
    defer { server.stop() }
    var options = options()
    options.connectTimeout = .milliseconds(500)
    let error = await refusal("tls://127.0.0.1:\(server.port)", options)
    #expect("\(String(describing: error))".contains("said nothing"), "\(String(describing: error))")
    #expect(!server.text.contains("CONNECT"))
  }

  /// A nats-server with a certificate.
  private func start(
    _ files: (certificate: String, key: String), verifying ca: String? = nil,
    user: Bool = true
  ) async throws -> NATSServerProcess {
    try await NATSServerProcess.start(
      arguments: ["--tls", "--tlscert", files.certificate, "--tlskey", files.key]
        + (ca.map { ["--tlsverify", "--tlscacert", $0] } ?? [])
        + (user ? ["--user", "ann", "--pass", Self.password] : []))
  }

  @Test func theServerThatWasNamedIsUsed() async throws {
    let folder = try LoopbackAuthority()
    let server = try await start(
      folder.issue("server", hosts: ["localhost"], addresses: ["127.0.0.1"]))
    defer { server.stop() }
    let events = Inbox<NATSEvent>(capacity: 1000)
    for host in ["localhost", "127.0.0.1"] {
      var options = options(ca: folder.caFile)
      options.onEvent = { events.offer($0) }
      let bus = try await NATSBus.connect(
        url: "tls://ann:\(Self.password)@\(host):\(server.port)", name: "test", options: options)
      let contract = BusContract(bus: bus, other: bus)
      try await contract.settle(bus)
      // Larger than the library's buffer, and than what TLS puts into one record.
      let large = (0..<900_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
      let messages = Inbox<BusMessage>(capacity: 100)
      let subscription = try bus.subscribe("large") { messages.offer($0) }
      for _ in 0..<5 { bus.publish("large", large) }
      let seen = await contract.collect(5, from: messages)
      #expect(seen.count == 5 && seen.allSatisfy { $0.bytes == large })
      subscription.cancel()
      try await server.restart()
      try await events.until { if case .reconnected = $0 { true } else { false } }
      try await contract.settle(bus)
      await bus.close()
    }
  }

  @Test func anotherServersCertificateIsRefused() async throws {
    let folder = try LoopbackAuthority()
    let server = try await start(folder.issue("other", hosts: ["other.example"]))
    defer { server.stop() }
    for host in ["localhost", "127.0.0.1"] {
      let error = await refusal(
        "tls://ann:\(Self.password)@\(host):\(server.port)", options(ca: folder.caFile))
      #expect("\(String(describing: error))".contains("mismatch"), "\(String(describing: error))")
    }
  }

  @Test func anotherAuthorityIsRefused() async throws {
    let (folder, other) = (try LoopbackAuthority(), try LoopbackAuthority())
    let server = try await start(folder.issue("server", addresses: ["127.0.0.1"]))
    defer { server.stop() }
    let url = "tls://ann:\(Self.password)@127.0.0.1:\(server.port)"
    for ca in [nil, other.caFile] {
      let error = await refusal(url, options(ca: ca))
      #expect("\(String(describing: error))".contains("TLS"), "\(String(describing: error))")
    }
    #expect(await refusal(url, options(ca: folder.caFile)) == nil)
  }

  @Test func aServerThatAsksForACertificateGetsIt() async throws {
    let folder = try LoopbackAuthority()
    let server = try await start(
      folder.issue("server", addresses: ["127.0.0.1"]), verifying: folder.caFile, user: false)
    defer { server.stop() }
    let url = "tls://127.0.0.1:\(server.port)"
    var options = options(ca: folder.caFile)
    #expect(await refusal(url, options) != nil)
    let stranger = try LoopbackAuthority()
    let strange = try stranger.issue("node")
    (options.access.certificate, options.access.key) = (strange.certificate, strange.key)
    #expect(await refusal(url, options) != nil)
    let own = try folder.issue("node")
    (options.access.certificate, options.access.key) = (own.certificate, own.key)
    #expect(await refusal(url, options) == nil)
  }

  @Test func userAndPasswordComeFromAFile() async throws {
    let folder = try LoopbackAuthority()
    let server = try await start(folder.issue("server", addresses: ["127.0.0.1"]))
    defer { server.stop() }
    let url = "tls://127.0.0.1:\(server.port)"
    var options = options(ca: folder.caFile)
    options.access.user = "ann"
    options.access.passwordFile = folder.path + "/password"
    for (text, isRight) in [(Self.password, true), ("\(Self.password)\n", true), ("wrong", false)] {
      try Data(text.utf8).write(to: URL(filePath: folder.path + "/password"))
      #expect(await (refusal(url, options) == nil) == isRight, "\(text)")
    }
  }

  @Test func whatCannotBeUsedIsNamed() throws {
    let folder = try LoopbackAuthority()
    let (one, two) = (try folder.issue("one"), try folder.issue("two"))
    let junk = folder.path + "/junk"
    try Data("a \"b\"\n".utf8).write(to: URL(filePath: junk))
    let bad: [(NATSAccess.Part?, (inout NATSAccess) -> Void)] = [
      (nil, { _ in }),
      (nil, { ($0.certificate, $0.key, $0.ca) = (one.certificate, one.key, folder.caFile) }),
      (.natsCA, { $0.ca = "/nowhere" }), (.natsCA, { $0.ca = junk }),
      (.natsCertificate, { $0.certificate = one.certificate }), (.natsKey, { $0.key = one.key }),
      (.natsCertificate, { ($0.certificate, $0.key) = (one.certificate, two.key) }),
      (.natsCredentials, { $0.credentialsFile = "/nowhere" }), (.natsUser, { $0.user = "ann" }),
      (.natsPasswordFile, { $0.passwordFile = one.key }),
      (.natsUser, { ($0.user, $0.passwordFile) = ("a\"", one.key) }),
      (.natsPasswordFile, { ($0.user, $0.passwordFile) = ("ann", junk) }),
      (.natsPasswordFile, { ($0.user, $0.passwordFile) = ("ann", "/nowhere") }),
    ]
    for (index, (part, change)) in bad.enumerated() {
      var access = NATSAccess()
      change(&access)
      var found: NATSAccess.Part?
      do { try access.check() } catch { found = error.part }
      #expect(found == part, "row \(index)")
    }
  }
}

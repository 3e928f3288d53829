import CallCore
import CallTestKit
import NIOCore
import Synchronization
import Testing

/// Connections that fail, and violations that devices report.
@Suite(.timeLimit(.minutes(1)))
struct SimulatorConnectionTests {
  @Test("R31: a connection that never says anything again, and one that says nothing at all")
  func silence() async throws {
    let options = APNsSimulatorOptions.sample {
      $0.script = APNsScript(connections: [(1...1, .blackHole), (2...2, .cut)])
    }
    try await withSimulator(options) { simulator in
      let sender = try await TestSender.connect(to: simulator)
      async let fate = sender.push()
      try await sender.ping()
      await #expect(throws: (any Error).self) { try await TestSender.connect(to: simulator) }
      simulator.cutConnections()
      #expect(await fate == .lost)
      try await sender.closed()
      #expect(simulator.report.accepted == 0)
      let third = try await TestSender.connect(to: simulator)
      #expect(await third.push().answer?.status == "200")
      await third.close()
    }
  }

  @Test("R32: refused connections, and listening again on the same port")
  func refusedConnections() async throws {
    try await withSimulator { simulator in
      await simulator.stopListening()
      await #expect(throws: (any Error).self) { try await TestSender.connect(to: simulator) }
      try await listenAgain(simulator)
      let sender = try await TestSender.connect(to: simulator)
      #expect(await sender.push().answer?.status == "200")
      await sender.close()
    }
  }

  /// Another test may have been given the port meanwhile, and gives it back.
  private func listenAgain(_ simulator: APNsSimulator) async throws {
    while true {
      do {
        return try await simulator.listenAgain()
      } catch is IOError {
        try Task.checkCancellation()
        await Task.yield()
      }
    }
  }

  @Test(
    "R32: certificates that a client must refuse",
    arguments: [
      APNsSimulatorOptions.Certificate.otherName, .expired, .untrusted,
    ])
  func badCertificates(kind: APNsSimulatorOptions.Certificate) async throws {
    try await withSimulator(.sample { $0.certificate = kind }) { simulator in
      await #expect(throws: (any Error).self) { try await TestSender.connect(to: simulator) }
      #expect(simulator.report.streams == 0)
    }
  }

  @Test("R1: without ALPN the connection is closed, unless the tolerant switch is on")
  func noALPN() async throws {
    try await withSimulator { simulator in
      await #expect(throws: (any Error).self) {
        try await TestSender.connect(to: simulator, protocols: [])
      }
      #expect(simulator.report.violations == [.noALPN: 1])
    }
    try await withSimulator(.sample { $0.leniency = [.noALPN] }) { simulator in
      let sender = try await TestSender.connect(to: simulator, protocols: [])
      #expect(await sender.push().answer?.status == "200")
      await sender.close()
    }
  }

  @Test("R5: an idle connection is ended with GOAWAY")
  func idle() async throws {
    try await withSimulator(.sample { $0.idleTimeout = .milliseconds(30) }) { simulator in
      let sender = try await TestSender.connect(to: simulator)
      try await sender.closed()
      #expect(sender.notes.goAways.first?.debug == #"{"reason":"IdleTimeout"}"#)
    }
  }

  @Test("R34: of what is pushed to a device that is away, the last is kept")
  func awayDevice() async throws {
    let got = Mutex<[String]>([])
    let options = APNsSimulatorOptions.sample {
      $0.onPush = { push in got.withLock { $0.append(push.id) } }
    }
    try await withSimulator(options) { simulator in
      simulator.register(sampleToken, topic: topic, device: "phone")
      simulator.unregister(device: "phone")
      let sender = try await TestSender.connect(to: simulator)
      let ids = (1...3).map { String(sampleID.dropLast()) + "\($0)" }
      for id in ids {
        let push = APNsRequest.sample(id: id, provider: providerOfNow)
          .with("apns-expiration", id == ids[2] ? "0" : "99999999999")
        #expect(await sender.push(push).answer?.status == "200")
      }
      #expect(got.withLock { $0 } == [])
      simulator.bringBack(device: "phone")
      #expect(got.withLock { $0 } == [ids[1]])
      #expect(simulator.report.dropped == 1)
      #expect(simulator.report.replaced == 1)
      await sender.close()
    }
  }

  @Test("R11: an id is minted where none was given, and in development a unique id, too")
  func ids() async throws {
    try await withSimulator(.sample { $0.environment = .development }) { simulator in
      let sender = try await TestSender.connect(to: simulator)
      let answer = await sender.push(id: nil).answer
      #expect(isCanonicalUUID(answer?.id ?? ""))
      #expect(answer?.hasUniqueID == true)
      let refused = await sender.push(id: "nonsense").answer
      #expect(refused?.body == #"{"reason":"BadMessageId"}"#)
      #expect(isCanonicalUUID(refused?.id ?? ""))
      await sender.close()
    }
  }
}

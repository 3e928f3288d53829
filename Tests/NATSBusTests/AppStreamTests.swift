import CallBus
import CallCore
import CallProcesses
import NATSBus
import TestSupport
import Testing

/// The streams of what is kept for apps, on real servers.
@Suite(.timeLimit(.minutes(2)))
struct AppStreamTests {
  @Test(arguments: NATSServerProcess.programs)
  func eachAppReadsItsOwnMessages(program: String) async throws {
    let server = try await NATSServerProcess.start(program: program)
    defer { server.stop() }
    let bus = try await NATSBus.connect(
      url: server.url, name: "test",
      options: NATSOptions(subjects: Subjects(cluster: "test", shardCount: 4)))
    let stream = try await bus.openAppStream(.events, .events)
    await #expect(throws: BusError.self) { _ = try await stream.range() }
    guard case .unknown = await stream.add(id: "early", app: "a", [1]) else {
      Issue.record("a stream that is not there takes messages")
      return
    }
    try await stream.create(followingLimits: true)
    #expect(try await stream.next(of: "a", from: 1) == nil)
    #expect(try await stream.last(of: "a") == nil)
    // A name that is no token of a subject.
    let apps = ["a", "b.c", "a"]
    for (index, app) in apps.enumerated() {
      let sequence = UInt64(index + 1)
      #expect(
        await stream.add(id: "n\(index)", app: app, [UInt8(index)])
          == .appended(sequence: sequence))
    }
    #expect(await stream.add(id: "n0", app: "a", [0]) == .appended(sequence: 1), "repeated")
    #expect(try await stream.range() == 1...3)
    #expect(try await stream.next(of: "a", from: 0)?.sequence == 1)
    #expect(try await stream.next(of: "a", from: 2)?.sequence == 3)
    #expect(try await stream.next(of: "a", from: 2)?.bytes == [2])
    #expect(try await stream.next(of: "a", from: 4) == nil)
    #expect(try await stream.next(of: "b.c", from: 1)?.bytes == [1])
    #expect(try await stream.last(of: "a")?.sequence == 3)
    #expect(try await stream.last(of: "c") == nil)

    let letters = try await bus.openAppStream(.deadLetters, .deadLetters)
    try await letters.create(followingLimits: true)
    #expect(await letters.add(id: "n0", app: "a", [9]) == .appended(sequence: 1))
    #expect(try await stream.range() == 1...3)
    await bus.close()
  }
}

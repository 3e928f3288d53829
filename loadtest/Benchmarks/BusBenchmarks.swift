import CallBus
import CallCore
import CallWire
import NATSBus
import Synchronization

/// The bus and the journal over a real nats-server with JetStream.
enum BusBenchmarks {
  static func run(_ measure: Measure, url: String) async throws {
    let subjects = Subjects(cluster: "benchmark", shardCount: 4)
    let options = NATSOptions(subjects: subjects)
    let near = try await NATSBus.connect(url: url, name: "benchmark-near", options: options)
    let far = try await NATSBus.connect(url: url, name: "benchmark-far", options: options)
    let echo = try far.subscribe("benchmark.echo") { message in
      if let reply = message.replyTo { far.publish(reply, message.bytes) }
    }
    try await requests(measure, near)
    try await throughput(measure, near, far)
    try await journal(measure, near)
    echo.cancel()
    await near.close()
    await far.close()
  }

  private static func requests(_ measure: Measure, _ bus: NATSBus) async throws {
    let name = "bus: request and reply over two connections, 200 B"
    guard measure.wants(name) else { return }
    let payload = [UInt8](repeating: 7, count: 200)
    var figures: [Double] = []
    for _ in 0..<5000 {
      let start = ContinuousClock.now
      _ = try await bus.request("benchmark.echo", payload, timeout: .seconds(5))
      figures.append(Self.nanoseconds(ContinuousClock.now - start))
    }
    measure.report(name, figures, "request")
  }

  private static func throughput(_ measure: Measure, _ near: NATSBus, _ far: NATSBus) async throws {
    let name = "bus: 100,000 messages of 200 B, one way"
    guard measure.wants(name) else { return }
    let count = 100_000
    let arrived = Atomic(0)
    let done = Inbox<Int>(capacity: 1)
    let subscription = try far.subscribe("benchmark.flood") { _ in
      if arrived.add(1, ordering: .relaxed).newValue % count == 0 { done.offer(0) }
    }
    // The subscription is known to the server once a request behind it has been answered.
    _ = try await far.request("benchmark.echo", [], timeout: .seconds(5))
    let payload = [UInt8](repeating: 7, count: 200)
    let messages = (0..<100).map { _ in
      OutgoingMessage(subject: "benchmark.flood", bytes: payload)
    }
    var figures: [Double] = []
    for _ in 0..<5 {
      let start = ContinuousClock.now
      var sent = 0
      while sent < count {
        // A full outbox refuses: the server is slower than this loop.
        let dropped = near.publish(messages)
        sent += messages.count - dropped
        if dropped > 0 { await Task.yield() }
      }
      _ = await done.next(until: .now + .seconds(30))
      figures.append(Self.nanoseconds(ContinuousClock.now - start) / Double(count))
    }
    subscription.cancel()
    measure.report(name, figures, "message")
  }

  private static func journal(_ measure: Measure, _ bus: NATSBus) async throws {
    let name = "journal: append and acknowledgement, 200 B, file store"
    guard measure.wants(name) else { return }
    var options = JournalOptions()
    options.shardCount = 4
    let journal = try await bus.openJournal(options)
    let payload = [UInt8](repeating: 7, count: 200)
    var sequence = try await journal.last(shard: 0)?.sequence ?? 0
    let answers = Inbox<AppendResult>(capacity: 1)
    var figures: [Double] = []
    for _ in 0..<5000 {
      let start = ContinuousClock.now
      journal.append(shard: 0, expecting: sequence, payload) { answers.offer($0) }
      let answer = await answers.next(until: .now + .seconds(10)).first
      guard case .appended(let next)? = answer else {
        throw BusError.failed("the journal answered \(String(describing: answer))")
      }
      sequence = next
      figures.append(Self.nanoseconds(ContinuousClock.now - start))
    }
    measure.report(name, figures, "append")
  }

  private static func nanoseconds(_ duration: Duration) -> Double {
    let parts = duration.components
    return Double(parts.seconds) * 1e9 + Double(parts.attoseconds) / 1e9
  }
}

internal import CallCore

/// Long outages by seed: of NATS, for all nodes or for one, and frozen edges, one or all.
final class SimOutages: FaultSource {
  /// The time after which a node closes a connection on which its server is silent.
  static let timeout: Span = .seconds(6)
  private static let longest: Span = .seconds(15)

  /// A node, or its line, was out of service until a time.
  var onDisturbance: (_ node: SimNode, _ until: Timestamp) -> Void = { _, _ in }
  var nodes: () -> [SimNode] = { [] }

  let world: SimWorld
  private let nats: SimNATS
  private let edges: [SimEdge]
  private let intensity: SimIntensity
  var random: SimRandom
  private(set) var isActive = false
  /// The last outage of NATS, or of all edges. Those that overlap are one.
  private(set) var last = (from: Timestamp(microseconds: 0), until: Timestamp(microseconds: 0))

  init(_ nats: SimNATS, _ edges: [SimEdge], _ intensity: SimIntensity) {
    world = nats.world
    self.nats = nats
    self.edges = edges
    random = world.fork("outages")
    self.intensity = intensity
  }

  var isUnderWay: Bool { world.now < last.until }

  private func note(_ span: Span) {
    if !isUnderWay { last.from = world.now }
    last.until = max(last.until, world.now + span)
  }

  func begin() {
    isActive = true
    every(intensity.seconds(120, 50, 25)) { $0.loseNATS() }
    every(intensity.seconds(120, 50, 25)) { $0.loseOne() }
    every(intensity.seconds(240, 100, 50)) { $0.freezeAllEdges() }
    every(intensity.seconds(240, 60, 30)) { $0.freezeOneEdge() }
  }

  func end() {
    isActive = false
    last.until = min(last.until, world.now)
  }

  /// Mostly short, since a long one fills most of a run.
  private func length(from shortest: Span) -> Span {
    random.chance(0.7)
      ? random.span(shortest, .seconds(5)) : random.span(.seconds(5), Self.longest)
  }

  private func loseNATS() {
    let span = length(from: .seconds(1))
    note(span)
    if random.chance(0.6) {
      world.count("fault.NATS killed")
      nats.kill(downFor: span)
    } else {
      world.count("fault.NATS stopped")
      nats.freeze(for: span, timeout: Self.timeout)
    }
    for node in nodes() {
      onDisturbance(node, world.now + max(span, Self.timeout) + .milliseconds(500))
    }
  }

  private func loseOne() {
    guard let node = random.pick(nodes()) else { return }
    world.count("fault.cut off for long")
    let span = length(from: .seconds(2))
    let notice = random.chance(0.5) ? Span.milliseconds(1) : Self.timeout
    nats.cut([node], for: span, notice: notice)
    onDisturbance(node, world.now + max(span, notice) + .milliseconds(500))
  }

  private func freezeAllEdges() {
    world.count("fault.all edges freeze")
    let span = length(from: .seconds(1))
    note(span)
    for edge in edges { freeze(edge, for: span) }
  }

  private func freezeOneEdge() {
    guard let edge = random.pick(edges.filter { $0.state == .running }) else { return }
    world.count("fault.edge freezes for long")
    freeze(edge, for: length(from: .seconds(3)))
  }

  private func freeze(_ edge: SimEdge, for span: Span) {
    guard edge.state != .down, let node = edge.node else { return }
    // Edges do not thaw in the same instant.
    edge.freeze(for: span + Span(microseconds: Int64(random.below(200_000))))
    onDisturbance(node, world.now + span)
  }
}

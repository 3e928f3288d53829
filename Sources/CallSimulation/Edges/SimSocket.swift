package import CallCore
internal import NIOCore

/// A TCP connection between a device and an edge, with latency.
///
/// Bytes arrive in order, sometimes in pieces. A connection may fall silent: nothing arrives any
/// more and neither end is notified, as when a phone leaves its network.
package final class SimSocket {
  package enum Side: Int {
    case device, edge
    var other: Side { self == .device ? .edge : .device }
  }

  private let world: SimWorld
  private var random: SimRandom
  private let latency: (Span, Span)
  /// When the last bytes of a direction arrive: nothing overtakes them.
  private var lastArrival: [Timestamp]
  private(set) var ends: [SimChannel?] = [nil, nil]
  package private(set) var isSilent = false
  package private(set) var isClosed = false

  /// - Parameter latency: of one way, shortest and longest.
  package init(world: SimWorld, random: SimRandom, latency: (Span, Span)) {
    self.world = world
    self.random = random
    self.latency = latency
    lastArrival = [world.now, world.now]
  }

  func attach(_ channel: SimChannel, _ side: Side) { ends[side.rawValue] = channel }

  func detach(_ side: Side) { ends[side.rawValue] = nil }

  /// From now on nothing arrives, in either direction.
  package func fallSilent() { isSilent = true }

  /// The connection ends: silently, or as one that its kernel closes.
  func lose(silently: Bool) { if silently { fallSilent() } else { reset() } }

  package func reset() {
    guard !isClosed, !isSilent else { return }
    for side in [Side.device, .edge] { arrive(at: side) { $0.peerClosed() } }
    isClosed = true
  }

  func send(_ bytes: ByteBuffer, from side: Side) {
    guard !isClosed else { return }
    var bytes = bytes
    // TCP has no message boundaries: now and then a frame arrives in two pieces.
    if bytes.readableBytes > 1, random.chance(0.02) {
      let cut = 1 + random.below(bytes.readableBytes - 1)
      if let head = bytes.readSlice(length: cut) { arrive(at: side.other) { $0.receive(head) } }
    }
    arrive(at: side.other) { [bytes] in $0.receive(bytes) }
  }

  /// One end closed its output; it still reads.
  func ended(by side: Side) {
    if !isClosed { arrive(at: side.other) { $0.peerClosed() } }
  }

  func closed(by side: Side) {
    ended(by: side)
    isClosed = true
  }

  private func arrive(at side: Side, _ body: @escaping (SimChannel) -> Void) {
    guard !isSilent else { return }
    let wanted = world.now + random.span(latency.0, latency.1)
    lastArrival[side.rawValue] = max(wanted, lastArrival[side.rawValue])
    world.schedule(at: lastArrival[side.rawValue]) { [self] in
      guard !isSilent, let channel = ends[side.rawValue] else { return }
      channel.loop.node.arrive { body(channel) }
    }
  }
}

package import CallClient
internal import CallCore
package import CallWire
internal import NIOCore

/// Connects a device of the world to edges, and lets an observer see its frames.
final class SimDeviceNetwork: DeviceNetwork {
  private let world: SimWorld
  private let loop: SimEventLoop
  private let edges: [SimEdge]
  private let who: Who
  /// nil once the world is over.
  private weak var observer: (any SimLineObserver)?
  private var random: SimRandom
  private var connections = 0
  private(set) var line: SimLine?
  /// Connections that may be open: two while the device moves to another edge.
  private var made: [SimLine] = []
  var lines: [SimLine] { made.filter { $0.isOpen || $0 === line } }
  var isOffline = false

  init(
    world: SimWorld, loop: SimEventLoop, edges: [SimEdge], who: Who, process: Int,
    observer: any SimLineObserver
  ) {
    self.world = world
    self.loop = loop
    self.edges = edges
    self.who = who
    self.observer = observer
    random = world.fork("network.\(who).\(process)")
  }

  static func address(of edge: Int) -> String { "ws://\(edge):80" }

  func connect(to edge: String, delegate: any DeviceLinkDelegate) -> any DeviceLink {
    let address = EdgeAddress(edge) ?? EdgeAddress(host: "0", port: 80)
    let target = edges[Int(address.host) ?? 0]
    let line = SimLine(
      number: observer?.newLink() ?? 0, who: who, observer: observer, edge: target,
      delegate: delegate)
    let connection = DeviceConnection(
      edge: address, codec: .protobuf, delegate: line, seed: random.next())
    line.connection = connection
    self.line = line
    made.removeAll { !$0.isOpen }
    made.append(line)
    let wait = random.span(.milliseconds(1), .milliseconds(30))
    loop.post(after: wait) { [weak self] in self?.connect(line, connection, target) }
    return line
  }

  private func connect(_ line: SimLine, _ connection: DeviceConnection, _ edge: SimEdge) {
    // No reply: the client times out.
    if isOffline { return }
    guard edge.listens else { return connection.connectFailed(LinkClosed.broken("refused")) }
    connections += 1
    let slow = random.chance(0.1)
    let socket = SimSocket(
      world: world, random: SimRandom(seed: random.next()),
      latency: slow
        ? (.milliseconds(20), .milliseconds(150)) : (.milliseconds(1), .milliseconds(15)))
    line.socket = socket
    let channel = SimChannel(loop: loop, socket: socket, side: .device)
    do {
      try channel.pipeline.syncOperations.addHandler(connection)
    } catch {
      return world.stop("\(who) cannot use its connection: \(error)")
    }
    edge.accept(socket)
    channel.open()
  }
}

/// Observes the frames between devices and edges.
package protocol SimLineObserver: AnyObject {
  func newLink() -> Int
  func opened(_ line: SimLine)
  func closed(_ line: SimLine)
  /// One end is frozen, or was.
  func disturbed(_ line: SimLine)
  /// - Returns: what is sent in its place; nil: nothing.
  func sending(_ frame: ClientFrame, on line: SimLine) -> ClientFrame?
  /// - Returns: what the device hears in its place; nil: nothing.
  func receiving(_ frame: ServerFrame, on line: SimLine) -> ServerFrame?
}

package final class SimLine: DeviceLink, DeviceLinkDelegate {
  package let number: Int
  package let who: Who
  package let edge: SimEdge
  private weak var observer: (any SimLineObserver)?
  private weak var delegate: (any DeviceLinkDelegate)?
  var connection: DeviceConnection?
  package internal(set) var socket: SimSocket?
  package private(set) var isOpen = false

  init(
    number: Int, who: Who, observer: (any SimLineObserver)?, edge: SimEdge,
    delegate: any DeviceLinkDelegate
  ) {
    self.number = number
    self.who = who
    self.observer = observer
    self.edge = edge
    self.delegate = delegate
  }

  package func send(_ frame: ClientFrame) {
    guard isOpen, let frame = observer?.sending(frame, on: self) else { return }
    connection?.send(frame)
  }

  package func flush() { connection?.flush() }

  package func close(abruptly: Bool) {
    connection?.close(abruptly: abruptly)
    end()
  }

  package func linkOpened() {
    isOpen = true
    observer?.opened(self)
    delegate?.linkOpened()
  }

  package func linkReceived(_ frame: ServerFrame) {
    guard let frame = observer?.receiving(frame, on: self) else { return }
    delegate?.linkReceived(frame)
  }

  package func linkReadCompleted() { delegate?.linkReadCompleted() }

  package func linkClosed(_ cause: LinkClosed) {
    end()
    delegate?.linkClosed(cause)
  }

  private func end() {
    if isOpen { observer?.closed(self) }
    isOpen = false
    connection = nil
  }
}

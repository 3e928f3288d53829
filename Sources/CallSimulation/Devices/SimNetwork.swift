package import CallClient
internal import CallCore
package import CallJudge
package import CallWire
internal import NIOCore

/// Connects a device of the world to edges, and lets an observer see its frames.
final class SimDeviceNetwork: DeviceNetwork {
  private unowned let device: SimDevice
  private let loop: SimEventLoop
  private var random: SimRandom
  private(set) var line: SimLine?
  /// Connections that may be open: two while the device moves to another edge.
  private var made: [SimLine] = []
  var lines: [SimLine] { made.filter { $0.isOpen || $0 === line } }
  var isOffline = false

  init(_ device: SimDevice, _ loop: SimEventLoop, process: Int) {
    self.device = device
    self.loop = loop
    random = device.world.fork("network.\(device.who).\(process)")
  }

  static func address(of edge: Int) -> String { "ws://\(edge):80" }

  func connect(to edge: String, delegate: any DeviceLinkDelegate) -> any DeviceLink {
    let address = EdgeAddress(edge) ?? EdgeAddress(host: "0", port: 80)
    let target = device.edges[Int(address.host) ?? 0]
    let line = SimLine(device.who, target, device.observer, delegate)
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
    let slow = random.chance(0.1)
    let socket = SimSocket(
      world: device.world, random: SimRandom(seed: random.next()),
      latency: slow
        ? (.milliseconds(20), .milliseconds(150)) : (.milliseconds(1), .milliseconds(15)))
    line.socket = socket
    let channel = SimChannel(loop: loop, socket: socket, side: .device)
    do {
      try channel.pipeline.syncOperations.addHandler(connection)
    } catch {
      return device.world.stop("\(device.who) cannot use its connection: \(error)")
    }
    edge.accept(socket)
    channel.open()
  }
}

/// Observes devices, and the frames between them and edges.
package protocol SimDeviceObserver: AnyObject {
  /// The app starts.
  func started(_ device: SimDevice)
  /// The client hands an event to the app.
  func told(_ device: SimDevice, _ event: ClientEvent)
  func newLink() -> Int
  func opened(_ line: SimLine)
  func closed(_ line: SimLine)
  /// One end is, or was, frozen.
  func disturbed(_ line: SimLine)
  /// - Returns: the frame to send in its place.
  func sending(_ frame: ClientFrame, on line: SimLine) -> ClientFrame
  /// - Returns: the frame that the device receives in its place.
  func receiving(_ frame: ServerFrame, on line: SimLine) -> ServerFrame
}

package final class SimLine: DeviceLink, DeviceLinkDelegate {
  package let number: Int
  package let who: Who
  package let edge: SimEdge
  private weak var observer: (any SimDeviceObserver)?
  private weak var delegate: (any DeviceLinkDelegate)?
  var connection: DeviceConnection?
  package internal(set) var socket: SimSocket?
  package private(set) var isOpen = false

  init(
    _ who: Who, _ edge: SimEdge, _ observer: (any SimDeviceObserver)?,
    _ delegate: any DeviceLinkDelegate
  ) {
    number = observer?.newLink() ?? 0
    self.who = who
    self.edge = edge
    self.observer = observer
    self.delegate = delegate
  }

  package func send(_ frame: ClientFrame) {
    guard isOpen, let observer else { return }
    connection?.send(observer.sending(frame, on: self))
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
    guard let observer else { return }
    delegate?.linkReceived(observer.receiving(frame, on: self))
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

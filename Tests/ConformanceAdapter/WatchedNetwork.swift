import CallClient
import CallWire

/// A network that knows whether attempts to connect are under way. They take real time, of which virtual time knows
/// nothing: the suite waits for them.
final class WatchedNetwork: DeviceNetwork {
  private let network: any DeviceNetwork
  fileprivate(set) var connecting = 0

  init(_ network: any DeviceNetwork) { self.network = network }

  func connect(to edge: String, delegate: any DeviceLinkDelegate) -> any DeviceLink {
    connecting += 1
    let watch = Watch(delegate, self)
    return WatchedLink(network.connect(to: edge, delegate: watch), watch)
  }
}

/// Stands between a connection and its owner.
private final class Watch: DeviceLinkDelegate {
  private weak var delegate: (any DeviceLinkDelegate)?
  private let network: WatchedNetwork
  private var isConnecting = true

  init(_ delegate: any DeviceLinkDelegate, _ network: WatchedNetwork) {
    self.delegate = delegate
    self.network = network
  }

  func decided() {
    guard isConnecting else { return }
    isConnecting = false
    network.connecting -= 1
  }

  func linkOpened() {
    decided()
    delegate?.linkOpened()
  }

  func linkReceived(_ frame: ServerFrame) { delegate?.linkReceived(frame) }
  func linkReadCompleted() { delegate?.linkReadCompleted() }

  func linkClosed(_ cause: LinkClosed) {
    decided()
    delegate?.linkClosed(cause)
  }
}

/// Keeps the watch, which the connection itself does not.
private final class WatchedLink: DeviceLink {
  private let link: any DeviceLink
  private let watch: Watch

  init(_ link: any DeviceLink, _ watch: Watch) {
    self.link = link
    self.watch = watch
  }

  func send(_ frame: ClientFrame) { link.send(frame) }
  func flush() { link.flush() }

  func close(abruptly: Bool) {
    watch.decided()
    link.close(abruptly: abruptly)
  }
}

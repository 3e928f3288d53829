package import CallWire

/// Moves a device from one connection to the next. It is the current connection's delegate, and
/// receives the next one's events here.
package protocol NextLinkOwner: DeviceLinkDelegate {
  func nextOpened()
  func nextReceived(_ frame: ServerFrame)
  func nextClosed(_ cause: LinkClosed)
}

/// The connection to which a device moves. Once it has become the current one, its events reach the
/// owner like those of any other. The owner keeps this object as long as the connection.
package final class NextLink: DeviceLinkDelegate {
  package var link: (any DeviceLink)?
  package var isCurrent = false
  private weak var owner: (any NextLinkOwner)?

  package init(owner: any NextLinkOwner) { self.owner = owner }

  package func close(abruptly: Bool) {
    owner = nil
    link?.flush()
    link?.close(abruptly: abruptly)
    link = nil
  }

  package func linkOpened() {
    if isCurrent { owner?.linkOpened() } else { owner?.nextOpened() }
  }

  package func linkReceived(_ frame: ServerFrame) {
    if isCurrent { owner?.linkReceived(frame) } else { owner?.nextReceived(frame) }
  }

  package func linkReadCompleted() {
    if isCurrent { owner?.linkReadCompleted() }
  }

  package func linkClosed(_ cause: LinkClosed) {
    if isCurrent { owner?.linkClosed(cause) } else { owner?.nextClosed(cause) }
  }
}

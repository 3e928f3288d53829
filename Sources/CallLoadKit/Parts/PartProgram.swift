import CallAuth
import Glibc
import NIOCore
import NIOPosix

/// A process of devices. It reads orders from its standard input, a socket, and ends with the process that
/// gives them.
enum PartProgram {
  static func run(_ command: LoadCommand) async -> Never {
    signal(SIGPIPE, SIG_IGN)
    let (orders, giver) = AsyncStream.makeStream(of: PartOrder.self)
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    do {
      let channel = try await PartChannel.open(
        STDIN_FILENO, on: group, bytesMax: 1 << 20,
        received: { data in
          do {
            giver.yield(try PartOrder(json: data))
          } catch {
            fail("an order cannot be read: \(error)")
          }
        },
        ended: { _ in _exit(0) })
      await PartWork(command, channel).run(orders)
    } catch {
      fail("\(error)")
    }
    _exit(0)
  }

  private static func fail(_ what: String) -> Never {
    Output.write("devices: \(what)\n", to: STDERR_FILENO)
    _exit(2)
  }
}

/// Carries the orders out, several at once.
private actor PartWork {
  private let command: LoadCommand
  private let channel: PartChannel
  private let progress = LoadProgress()
  private var engine: LoadEngine?

  init(_ command: LoadCommand, _ channel: PartChannel) {
    self.command = command
    self.channel = channel
  }

  func run(_ orders: AsyncStream<PartOrder>) async {
    await withDiscardingTaskGroup { group in
      group.addTask { [progress, channel] in
        while !Task.isCancelled {
          channel.send(PartReport.progress(progress.snapshot))
          try? await Task.sleep(for: .milliseconds(100))
        }
      }
      for await order in orders {
        // In turn, but for those that last.
        switch order.what {
        case .connect, .load, .disconnect: group.addTask { await self.carryOut(order) }
        case .begin, .note, .stop: await carryOut(order)
        }
      }
    }
  }

  /// The answer comes behind the progress that the order made.
  private func carryOut(_ order: PartOrder) async {
    func answer(_ report: PartReport) {
      channel.send(PartReport.progress(progress.snapshot))
      channel.send(report)
    }
    do {
      switch order.what {
      case .begin(let orders): engine = try makeEngine(orders)
      case .connect: try await engine?.connect()
      case .load(let calls, let seconds):
        guard let result = try await engine?.load(calls: calls, duration: seconds) else { break }
        return answer(.result(order: order.id, result))
      case .note(let step): await engine?.note(step)
      case .stop: return engine?.stop() ?? ()
      case .disconnect: await engine?.disconnect()
      }
      answer(.done(order: order.id))
    } catch {
      answer(.failed(order: order.id, "\(error)"))
    }
  }

  private func makeEngine(_ orders: PartOrders) throws -> LoadEngine {
    let needed = FileLimit.needed(devices: orders.part.devices)
    _ = FileLimit.raise(toward: needed)
    let options = try LoadOptions(
      command, orders.target, keys: AppKeys.load(path: orders.target.keysPath), part: orders.part)
    return LoadEngine(options: options, progress: progress)
  }
}

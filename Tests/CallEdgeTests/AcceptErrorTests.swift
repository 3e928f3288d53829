import CallEdge
import Glibc
import NIOCore
import NIOEmbedded
import Testing

/// A listening socket that cannot accept.
@Suite struct AcceptErrorTests {
  /// The channel keeps the last value of each option.
  private static func autoReads(of channel: EmbeddedChannel) -> [Bool] {
    channel.options.compactMap { option, value in
      option is ChannelOptions.Types.AutoReadOption ? value as? Bool : nil
    }
  }

  @Test(arguments: [EMFILE, ENFILE, ENOBUFS, ENOMEM])
  func itReadsNothingForASecond(errno: CInt) throws {
    var count = 0
    let channel = EmbeddedChannel(handler: AcceptErrorHandler { count += 1 })
    channel.pipeline.fireErrorCaught(IOError(errnoCode: errno, reason: "accept"))
    #expect(count == 1)
    #expect(Self.autoReads(of: channel) == [false])
    channel.embeddedEventLoop.advanceTime(by: .milliseconds(999))
    #expect(Self.autoReads(of: channel) == [false])
    channel.embeddedEventLoop.advanceTime(by: .milliseconds(1))
    #expect(Self.autoReads(of: channel) == [true])
    _ = try channel.finish()
  }

  @Test func otherErrorsPass() throws {
    let channel = EmbeddedChannel(
      handler: AcceptErrorHandler { Issue.record("nothing is exhausted") })
    channel.pipeline.fireErrorCaught(IOError(errnoCode: ECONNABORTED, reason: "accept"))
    #expect(throws: IOError.self) { try channel.throwIfErrorCaught() }
    #expect(Self.autoReads(of: channel).isEmpty)
  }
}

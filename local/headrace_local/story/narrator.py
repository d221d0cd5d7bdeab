"""Tells the story line by line with the seconds since it began: the same on a terminal and in a log."""

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from headrace_local.story.failure import StoryFailed


class Narrator:
    """Writes to one console. `clock` counts seconds; its value at the start of the story is its zero."""

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._console = console
        self._clock = clock
        self._began_s = clock()
        self._streaming = False

    @property
    def elapsed_s(self) -> float:
        """Seconds since the story began."""
        return self._clock() - self._began_s

    def chapter(self, title: str) -> None:
        """A heading."""
        self._console.print()
        self._line(Text(title, style="bold"))

    def tell(self, text: str) -> None:
        """Something that is so."""
        self._line(Text(text))

    def news(self, text: str) -> None:
        """Something that the operator did, or that went well."""
        self._line(Text(text, style="green"))

    def command(self, command: str) -> None:
        """A command as the reader would type it."""
        self._line(Text(f"$ {command}", style="cyan"))

    def paste(self, lines: str) -> None:
        """Something for the reader's own shell: whole lines, so that they can be copied as they stand."""
        self.stream_end()
        self._console.print(Text(lines, style="cyan"), soft_wrap=True)

    def row(self, cells: Sequence[str], widths: Sequence[int], *, heading: bool = False) -> None:
        """A row of a table that grows as time goes by; the last cell is as wide as it is."""
        padded = [cell.rjust(width) for cell, width in zip(cells, widths, strict=False)]
        line = "  ".join([*padded, *cells[len(widths) :]])
        self._line(Text(line, style="bold" if heading else ""))

    def stream(self, text: str) -> None:
        """A piece of an answer, as it comes; the line ends with `stream_end`."""
        if not self._streaming:
            self._console.print(self._stamp(), end="")
            self._streaming = True
        self._console.print(Text(text.replace("\n", " "), style="yellow"), end="", soft_wrap=True)

    def stream_end(self) -> None:
        """Ends the line that `stream` began, if it did."""
        if self._streaming:
            self._console.print()
            self._streaming = False

    def failed(self, failure: StoryFailed) -> None:
        """The end of a story that did not come out."""
        self.stream_end()
        self._console.print()
        self._line(Text("This is not how it should have gone.", style="bold red"))
        self._line(Text(f"expected  {failure.expected}"))
        self._line(Text(f"seen      {failure.seen}"))
        self._line(Text(f"look at   {failure.look}", style="cyan"))

    def stop(self, text: str) -> None:
        """The one sentence after which there is nothing more to tell."""
        self._line(Text(text, style="bold red"))

    def _line(self, text: Text) -> None:
        self.stream_end()
        # Never wrapped or cropped: a line of a log stays a line, and a command can be copied.
        self._console.print(self._stamp() + text, soft_wrap=True)

    def _stamp(self) -> Text:
        return Text(f"{self.elapsed_s:6.1f} s  ", style="dim")

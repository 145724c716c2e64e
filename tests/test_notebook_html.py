from piop.notebook_html import image_html, table_html, text_html


def test_text_is_neither_html_nor_mathematics():
    shown = text_html(r"<script>alert('x')</script> $\href{javascript:a}{b}$ & \(c\)")
    assert "<script" not in shown
    assert "&lt;script&gt;alert(&#x27;x&#x27;)" in shown
    assert r"$\href" not in shown, "a delimiter of mathematics stands by itself"
    assert r"\(" not in shown
    assert shown.count("<span>$</span>") == 2


def test_a_table_escapes_its_cells_and_indents_parts():
    shown = table_html([("a<b", "1 & 2"), ("  part", "3")])
    assert "a&lt;b" in shown
    assert "1 &amp; 2" in shown
    assert "&emsp;part" in shown
    assert shown.count("<tr>") == 2


def test_an_image_is_held_by_the_page():
    assert image_html(b"abc", 'a "b"') == (
        '<img src="data:image/png;base64,YWJj" alt="a &quot;b&quot;">'
    )
